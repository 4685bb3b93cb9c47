// The functions of one instruction set for adapted_lengths (stored/ops.cc).
#pragma once

#include <cstdint>

#include "backends/cpu/threads/isa.h"

namespace lamina::cpu {

struct LengthFunctions {
  // out[i] = (w[i] + scale change[i])^2 in f32. w is f32 or bf16.
  using Squares = void (*)(const void* w, const float* change, float scale, std::int64_t count,
                           float* out);
  Squares f32, bf16;

  static const LengthFunctions avx512, avx2, portable;
};

}  // namespace lamina::cpu
