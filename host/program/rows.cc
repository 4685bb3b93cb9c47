#include "program/rows.h"

#include <algorithm>

namespace lamina::program {
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

}  // namespace lamina::program
