// All formats whose values are integers times scales, and how kernels read any of them, 64 values
// at a time (integer_steps_simd.h). Internal to each file that includes it.
#pragma once

#include <algorithm>
#include <array>
#include <type_traits>

#include "backends/cpu/stored/integer_gguf_simd.h"
#include "backends/cpu/stored/integer_steps_simd.h"

namespace lamina::cpu {
namespace {

// ---- Groups of integers with a scale in bf16 or f16 ---------------------------------------------

// 8 bits, signed, or 4 bits, whose low nibbles are the first half of the group. 4 bits are 8 larger
// than the integer, or have a zero point after the scale.
template <int kBits, int kGroup, typename Scale = bfloat16, bool kZero = false>
struct Group {
  static constexpr int kValues = kGroup, kAt = kZero ? 4 : 2, kBytes = kAt + kGroup * kBits / 8;
  static constexpr int kOffset = kZero ? 0 : 1 << (kBits - 1), kMaxCode = (1 << kBits) - 1;
  static constexpr bool kHasMinimum = kZero;
  static constexpr int kScaleValues = 32;
  using X = std::conditional_t<kBits == 4 && kGroup == 32, QuantisedHalves, QuantisedStep>;

  struct Opened {
    Float scales, minima;
  };
  // The numbers at p of one group, or of two groups in eight lanes each.
  LAMINA_SIMD static Float numbers(const std::byte* p, int word) {
    if constexpr (kGroup > 32)
      return splat(number_at<Scale>(p + 2 * word));
    else if constexpr (std::is_same_v<Scale, bfloat16>)
      return bf16_pair<kBytes / 2>(p, word);
    else
      return f16_pair<kBytes / 2>(p, word);
  }
  LAMINA_SIMD static Opened open(const std::byte* p) {
    const Float scales = numbers(p, 0);
    return {scales, kZero ? -(scales * numbers(p, 1)) : scales};
  }
  LAMINA_SIMD static Codes codes(const std::byte* p, int step) {
    if constexpr (kBits == 8) {
      const Codes bytes = kGroup == 32 ? both(load_bytes32(p + kAt), load_bytes32(p + kBytes + kAt))
                                       : load_codes(p + kAt + kStepValues * step);
      return bytes ^ splat<Codes>(128);
    } else if constexpr (kGroup == 32) {
      return nibbles_of_pair(p + kAt, p + kBytes + kAt);
    } else if constexpr (kGroup == 64) {
      return low_then_high(load_bytes32(p + kAt));
    } else {
      const Codes bytes = load_codes(p + kAt);
      return step == 0 ? low_nibbles(bytes) : high_nibbles(bytes);
    }
  }
  LAMINA_SIMD static Float scales(const Opened& o, const std::byte*, int) { return o.scales; }
  LAMINA_SIMD static Float minima(const Opened& o, const std::byte*, int) { return o.minima; }

  LAMINA_SIMD static void halves(const std::byte* p, Codes (&codes)[2]) {
    nibbles_of_four<kBytes>(p + kAt, codes);
  }
  LAMINA_SIMD static Float number_of_four(const std::byte* p, int word) {
    if constexpr (std::is_same_v<Scale, bfloat16>)
      return bf16_of_four<kBytes>(p, word);
    else
      return f16_of_four<kBytes>(p, word);
  }
  LAMINA_SIMD static Float scales_of_four(const std::byte* p) { return number_of_four(p, 0); }
  LAMINA_SIMD static Float minima_of_four(const std::byte* p) {
    return -(number_of_four(p, 0) * number_of_four(p, 1));
  }
};

// ---- Four-bit floats: their values, doubled, are integers ---------------------------------------

// The scale of doubled MXFP4 values.
constexpr std::array<float, 256> half_e8m0() {
  std::array<float, 256> out{};
  for (std::uint32_t bits = 2; bits < 255; ++bits)
    out[bits] = __builtin_bit_cast(float, (bits - 1) << 23);
  out[0] = 0x1p-128f, out[1] = 0x1p-127f;
  out[255] = __builtin_nanf("");
  return out;
}
constexpr std::array<float, 256> kHalfE8m0 = half_e8m0();

// MXFP4 values, doubled, plus 12.
constexpr std::uint8_t kE2m1Codes[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};

struct Mxfp4 {
  static constexpr int kValues = 32, kBytes = 17, kOffset = 12, kMaxCode = 24;
  static constexpr bool kHasMinimum = false;
  static constexpr int kScaleValues = 32;
  using X = QuantisedHalves;
  LAMINA_SIMD static const float* scale_at(const std::byte* p) {
    return kHalfE8m0.data() + byte_at(p);
  }

  LAMINA_SIMD static None open(const std::byte*) { return {}; }
  LAMINA_SIMD static Codes codes(const std::byte* p, int) {
    return from_table(kE2m1Codes, nibbles_of_pair(p + 1, p + kBytes + 1));
  }
  LAMINA_SIMD static Float scales(None, const std::byte* p, int) {
    return in_eight_lanes_each(*scale_at(p), *scale_at(p + kBytes));
  }
  LAMINA_SIMD static void halves(const std::byte* p, Codes (&codes)[2]) {
    nibbles_of_four<kBytes>(p + 1, codes);
    for (Codes& half : codes) half = from_table(kE2m1Codes, half);
  }
  LAMINA_SIMD static Float scales_of_four(const std::byte* p) {
    return in_four_lanes_each(*scale_at(p), *scale_at(p + kBytes), *scale_at(p + 2 * kBytes),
                              *scale_at(p + 3 * kBytes));
  }
};

// MXFP4's values; 16 share a scale.
struct Nvfp4 {
  static constexpr int kValues = 64, kBytes = 40, kOffset = 12, kMaxCode = 24;
  static constexpr bool kHasMinimum = false;
  static constexpr int kScaleValues = 16;
  using X = QuantisedStep;

  // The scale of doubled values.
  LAMINA_SIMD static float scale(const std::byte* p, int i) { return nvfp4_scale_at(p, i) * 0.5f; }

  LAMINA_SIMD static None open(const std::byte*) { return {}; }
  LAMINA_SIMD static Codes codes(const std::byte* p, int) {
    return from_table(kE2m1Codes, low_then_high(load_bytes32(p + 8)));
  }
  LAMINA_SIMD static Float scales(None, const std::byte* p, int) {
    return in_four_lanes_each(scale(p, 0), scale(p, 1), scale(p, 2), scale(p, 3));
  }
};

// ---- All formats --------------------------------------------------------------------------------

// Calls LAMINA_INTEGER_FORMAT(name of the BlockFormat, its type).
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
