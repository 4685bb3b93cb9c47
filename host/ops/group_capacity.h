// The capacity of a group. Private to group_rows and its kernels.
#pragma once

#include <algorithm>
#include <cmath>

#include "graph/call.h"

namespace lamina::ops {

// Returns the capacity for each element of the first dim; 0 = unlimited. The factor multiplies an
// equal share, rounded up. Fedus et al. 2021, section 2.2.
inline std::int64_t group_capacity(const Call& c) {
  const double factor = c.f("capacity_factor");
  const Type& ids = c.type(0);
  if (factor <= 0 || ids.num_elements() == 0) return 0;
  const std::int64_t assignments = ids.num_elements() / ids.dim(0);
  const double share =
      std::ceil(static_cast<double>(assignments) / static_cast<double>(c.i("groups")));
  // At most the number of assignments, regardless of the factor.
  const double places = std::min(std::max(share, 1.0) * factor, static_cast<double>(assignments));
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(places));
}

}  // namespace lamina::ops
