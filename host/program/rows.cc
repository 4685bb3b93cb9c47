#include "program/rows.h"

#include <algorithm>

namespace lamina::cli {
namespace {

std::vector<std::int32_t> labels_of(std::span<const std::int32_t> unshifted, std::int64_t tokens) {
  std::vector<std::int32_t> out(unshifted.size(), -100);
  for (std::size_t i = 0; i + 1 < unshifted.size(); ++i)
    if (static_cast<std::int64_t>(i + 1) % tokens != 0) out[i] = unshifted[i + 1];
  return out;
}

}  // namespace

bool Rows::packed() const {
  return std::ranges::any_of(segments, [](std::int32_t s) { return s != 1; });
}

Rows read_rows(const GoldenCase& c, const std::string& prefix) {
  const Shape shape = c.shape(prefix + "input_ids");
  std::vector<std::int32_t> ids = c.ints(prefix + "input_ids"), labels(ids.size(), -100);
  if (c.has(prefix + "labels")) labels = c.ints(prefix + "labels");
  Rows rows = rows_of(std::move(ids), labels, shape[0], shape[1]);
  if (c.has(prefix + "segment_ids")) rows.segments = c.ints(prefix + "segment_ids");
  // Places in time, height and width are inputs of their own.
  if (const std::string name = prefix + "position_ids"; c.has(name) && c.shape(name).ndim() == 2)
    rows.positions = c.ints(name);
  return rows;
}

Rows rows_of(std::vector<std::int32_t> ids, std::span<const std::int32_t> unshifted,
             std::int64_t batch, std::int64_t tokens) {
  const std::size_t count = ids.size();
  Rows rows{.batch = batch,
            .tokens = tokens,
            .ids = std::move(ids),
            .labels = labels_of(unshifted, tokens),
            .positions = std::vector<std::int32_t>(count),
            .segments = std::vector<std::int32_t>(count, 1)};
  for (std::size_t i = 0; i < count; ++i)
    rows.positions[i] = static_cast<std::int32_t>(static_cast<std::int64_t>(i) % tokens);
  return rows;
}

}  // namespace lamina::cli
