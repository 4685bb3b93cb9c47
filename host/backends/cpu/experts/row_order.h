// The order of rows by group, checked and turned round.
#pragma once

#include <algorithm>
#include <cstdint>

namespace lamina::cpu {

// places[order[r]] = r. An order that is not a permutation, which group_rows never gives, leaves
// some places 0 but no index outside of [0, count).
inline void invert_order(const std::int32_t* order, std::int64_t count, std::int32_t* places) {
  std::fill(places, places + count, 0);
  for (std::int64_t r = 0; r < count; ++r)
    if (order[r] >= 0 && order[r] < count) places[order[r]] = static_cast<std::int32_t>(r);
}

}  // namespace lamina::cpu
