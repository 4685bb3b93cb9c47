// The numbers that a thread computes at a time, one for each of its elements.
#pragma once

#include <cstdint>

#include "backends/cuda/gpu/gpu.h"

namespace lamina::cuda {

// Word: the register of one element, 32 bits or, for programs with f64 or i64, 64. A number of 32
// bits is in the low half.
template <typename Word, int kElements>
struct MapRegisters {
  static constexpr bool kWide = sizeof(Word) == 8;

  Word word[kElements];

  template <typename T>
  LAMINA_GPU_FUNCTION T get(int e) const {
    if constexpr (sizeof(T) == sizeof(Word))
      return __builtin_bit_cast(T, word[e]);
    else
      return __builtin_bit_cast(T, static_cast<std::uint32_t>(word[e]));
  }
  template <typename T>
  LAMINA_GPU_FUNCTION void set(int e, T x) {
    if constexpr (sizeof(T) == sizeof(Word))
      word[e] = __builtin_bit_cast(Word, x);
    else
      word[e] = __builtin_bit_cast(std::uint32_t, x);
  }
  LAMINA_GPU_FUNCTION void fill(Word x) {
    LAMINA_GPU_UNROLL
    for (int e = 0; e < kElements; ++e) word[e] = x;
  }
};

}  // namespace lamina::cuda
