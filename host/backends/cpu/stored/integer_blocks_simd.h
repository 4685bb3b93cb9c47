// All formats whose values are integers times scales, and how kernels read any of them, 64 values
// at a time (integer_steps_simd.h). Internal to each file that includes it.
#pragma once

#include <algorithm>

#include "backends/cpu/stored/integer_fp4_simd.h"
#include "backends/cpu/stored/integer_gguf_simd.h"
#include "backends/cpu/stored/integer_groups_simd.h"
#include "backends/cpu/stored/integer_small_simd.h"

namespace lamina::cpu {
namespace {

// All formats: calls LAMINA_INTEGER_FORMAT(name of the BlockFormat, its type).
#define LAMINA_INTEGER_FORMATS                                       \
  LAMINA_INTEGER_FORMAT("Q4_0", FourOrFive<false, false>)            \
  LAMINA_INTEGER_FORMAT("Q4_1", FourOrFive<true, false>)             \
  LAMINA_INTEGER_FORMAT("Q5_0", FourOrFive<false, true>)             \
  LAMINA_INTEGER_FORMAT("Q5_1", FourOrFive<true, true>)              \
  LAMINA_INTEGER_FORMAT("Q8_0", Q8_0)                                \
  LAMINA_INTEGER_FORMAT("Q4_K", FourOrFiveK<false>)                  \
  LAMINA_INTEGER_FORMAT("Q5_K", FourOrFiveK<true>)                   \
  LAMINA_INTEGER_FORMAT("Q6_K", Q6K)                                 \
  LAMINA_INTEGER_FORMAT("Q2_K", Q2K)                                 \
  LAMINA_INTEGER_FORMAT("Q3_K", Q3K)                                 \
  LAMINA_INTEGER_FORMAT("IQ4_NL", Iq4Nl)                             \
  LAMINA_INTEGER_FORMAT("IQ4_XS", Iq4Xs)                             \
  LAMINA_INTEGER_FORMAT("MXFP4", Mxfp4)                              \
  LAMINA_INTEGER_FORMAT("NVFP4", Nvfp4)                              \
  LAMINA_INTEGER_FORMAT("INT8_32", Group<8, 32>)                     \
  LAMINA_INTEGER_FORMAT("INT8_64", Group<8, 64>)                     \
  LAMINA_INTEGER_FORMAT("INT8_128", Group<8, 128>)                   \
  LAMINA_INTEGER_FORMAT("INT8_64_F16", Group<8, 64, float16>)        \
  LAMINA_INTEGER_FORMAT("INT8_128_F16", Group<8, 128, float16>)      \
  LAMINA_INTEGER_FORMAT("INT4_32", Group<4, 32>)                     \
  LAMINA_INTEGER_FORMAT("INT4_64", Group<4, 64>)                     \
  LAMINA_INTEGER_FORMAT("INT4_128", Group<4, 128>)                   \
  LAMINA_INTEGER_FORMAT("INT4_64_F16", Group<4, 64, float16>)        \
  LAMINA_INTEGER_FORMAT("INT4_128_F16", Group<4, 128, float16>)      \
  LAMINA_INTEGER_FORMAT("INT4Z_32", Group<4, 32, bfloat16, true>)    \
  LAMINA_INTEGER_FORMAT("INT4Z_64", Group<4, 64, bfloat16, true>)    \
  LAMINA_INTEGER_FORMAT("INT4Z_128", Group<4, 128, bfloat16, true>)  \
  LAMINA_INTEGER_FORMAT("INT4Z_32_F16", Group<4, 32, float16, true>) \
  LAMINA_INTEGER_FORMAT("INT4Z_64_F16", Group<4, 64, float16, true>) \
  LAMINA_INTEGER_FORMAT("INT4Z_128_F16", Group<4, 128, float16, true>)

// ---- Any format ---------------------------------------------------------------------------------

template <typename F>
constexpr int kStepsOf = std::max(1, F::kValues / kStepValues);
template <typename F>
constexpr int kBytesOf = std::max(1, kStepValues / F::kValues) * F::kBytes;  // of kStepsOf steps

// The scales of the blocks of kStepsOf steps.
template <typename F>
using Opened = decltype(F::open(nullptr));
template <typename F>
LAMINA_SIMD void read_step(const Opened<F>& opened, const std::byte* p, int step, Codes& codes,
                           Float& scales, Float& minima) {
  codes = F::codes(p, step);
  scales = F::scales(opened, p, step);
  if constexpr (F::kHasMinimum) minima = F::minima(opened, p, step);
}

}  // namespace
}  // namespace lamina::cpu
