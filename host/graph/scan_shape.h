// The operands and results of a scan. Operands are consts, carries and stacked values; results are
// carries and stacked values. A round reads and makes one element of each stacked value.
#pragma once

#include <compare>
#include <cstddef>

#include "graph/call.h"

namespace lamina {

struct ScanShape {
  std::size_t consts, carries;

  // The first stacked operand.
  std::size_t first_x() const { return consts + carries; }
  bool is_carried(std::size_t operand) const { return operand >= consts && operand < first_x(); }
  // A result that is stacked, not the last value of a carry.
  bool is_stacked(std::size_t result) const { return result >= carries; }
  auto operator<=>(const ScanShape&) const = default;
};

// REQUIRE a scan.
inline ScanShape scan_shape(const Node& scan) {
  return {static_cast<std::size_t>(scan.int_attr("num_consts")),
          static_cast<std::size_t>(scan.int_attr("num_carries"))};
}
inline ScanShape scan_shape(const Call& scan) {
  return {static_cast<std::size_t>(scan.i("num_consts")),
          static_cast<std::size_t>(scan.i("num_carries"))};
}

}  // namespace lamina
