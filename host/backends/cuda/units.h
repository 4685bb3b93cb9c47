// Kernels that move units of 1 to 16 bytes: the widest that all sizes and addresses of a call are
// multiples of.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include <fmt/format.h>

#include "backends/cuda/launch.h"

namespace lamina::cuda {

class UnitKernels {
 public:
  // The kernels <name>_1, _2, _4, _8 and _16.
  UnitKernels(Context& context, std::string_view name) {
    for (std::size_t i = 0; i < functions_.size(); ++i)
      functions_[i] = function(context, fmt::format("{}_{}", name, 1 << i));
  }

  // Returns the bytes of the widest unit.
  static std::int64_t unit_of(std::initializer_list<std::int64_t> byte_sizes,
                              std::initializer_list<gpu::Address> addresses) {
    std::uint64_t bits = 16;
    for (std::int64_t size : byte_sizes) bits |= static_cast<std::uint64_t>(size);
    for (gpu::Address address : addresses) bits |= address.value;
    return std::int64_t{1} << std::countr_zero(bits);
  }

  Function of(std::int64_t unit) const {
    return functions_[static_cast<std::size_t>(std::countr_zero(static_cast<std::uint64_t>(unit)))];
  }

 private:
  std::array<Function, 5> functions_ = {};
};

// For a thread per unit.
inline LaunchShape shape_for_units(std::int64_t count) {
  constexpr int kThreads = 256;
  return {.blocks = grid_for(count, kThreads), .threads = kThreads};
}

}  // namespace lamina::cuda
