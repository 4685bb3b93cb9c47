#include "cli/verify/rows.h"

#include <algorithm>

namespace lamina::cli {
namespace {

std::vector<std::int32_t> counting(std::size_t count, std::int64_t tokens) {
  std::vector<std::int32_t> out(count);
  for (std::size_t i = 0; i < count; ++i)
    out[i] = static_cast<std::int32_t>(static_cast<std::int64_t>(i) % tokens);
  return out;
}

}  // namespace

Rows::Rows(const GoldenCase& c, const std::string& prefix) : ids(c.ints(prefix + "input_ids")) {
  Shape shape = c.shape(prefix + "input_ids");
  batch = shape[0];
  tokens = shape[1];
  positions = c.has(prefix + "position_ids") ? c.ints(prefix + "position_ids")
                                             : counting(ids.size(), tokens);
  segments = c.has(prefix + "segment_ids") ? c.ints(prefix + "segment_ids")
                                           : std::vector<std::int32_t>(ids.size(), 1);
  if (c.has(prefix + "labels")) set_labels(c.ints(prefix + "labels"));
}

Rows::Rows(std::vector<std::int32_t> all_ids, const std::vector<std::int32_t>& unshifted,
           std::int64_t b, std::int64_t t)
    : batch(b),
      tokens(t),
      ids(std::move(all_ids)),
      positions(counting(ids.size(), t)),
      segments(ids.size(), 1) {
  set_labels(unshifted);
}

void Rows::set_labels(const std::vector<std::int32_t>& unshifted) {
  labels.assign(ids.size(), -100);
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t t = 0; t + 1 < tokens; ++t)
      labels[static_cast<std::size_t>(b * tokens + t)] =
          unshifted[static_cast<std::size_t>(b * tokens + t + 1)];
}

bool Rows::packed() const {
  return std::ranges::any_of(segments, [](std::int32_t s) { return s != 1; });
}

void Rows::bind(decoder::BoundProgram& program) const {
  auto writable = [](const std::vector<std::int32_t>& v) {
    return const_cast<std::int32_t*>(v.data());
  };
  program.bind(decoder::Role::tokens, writable(ids));
  program.bind(decoder::Role::labels, writable(labels));
  program.bind(decoder::Role::positions, writable(positions));
  program.bind(decoder::Role::segments, writable(segments));
}

void run(decoder::BoundProgram& program, const Backend& backend) {
  auto arena = backend.allocate(program.arena_bytes());
  program.run(arena->data());
}

}  // namespace lamina::cli
