// The table of random functions of one instruction set. Private to random*.cc.
#pragma once

#include "backends/cpu/random/random.h"

namespace lamina::cpu {

// Count of the numbers in sixteen blocks; kernels start at multiples of it.
inline constexpr std::int64_t kRandomGroup = 64;

struct RandomFunctions {
  // Groups of 64 numbers from group `group` on.
  void (*bits)(RandomStream s, std::int64_t group, std::int64_t num_groups, std::uint32_t* bits);
  // n numbers from group `group` on: scale u + shift.
  void (*fill_uniform)(RandomStream s, float scale, float shift, void* y, DType dtype,
                       std::int64_t group, std::int64_t n);
  // Elements [skip, skip + n) of the group's numbers onward decide about x[0 .. n).
  void (*dropout)(RandomStream s, std::uint32_t threshold, float scale, const void* x, void* y,
                  DType dtype, std::int64_t group, std::int64_t skip, std::int64_t n);

  static const RandomFunctions avx512, avx2, portable;
};

}  // namespace lamina::cpu
