// Groups of integers with a scale in bf16 or f16. Internal to each file that includes it.
#pragma once

#include <type_traits>

#include "backends/cpu/stored/integer_steps_simd.h"

namespace lamina::cpu {
namespace {

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

}  // namespace
}  // namespace lamina::cpu
