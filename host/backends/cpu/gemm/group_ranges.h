// Which rows belong to a group, as plain loops read them.
#pragma once

#include <algorithm>
#include <cstdint>

namespace lamina::cpu {

// The group of a row, or -1: offsets rise, group e has [offsets[e], offsets[e + 1]).
inline std::int64_t group_of(const std::int32_t* offsets, std::int64_t groups, std::int64_t row) {
  const std::int32_t* past = std::upper_bound(offsets, offsets + groups + 1, row);
  const std::int64_t group = past - offsets - 1;
  return group < groups ? group : -1;
}

}  // namespace lamina::cpu
