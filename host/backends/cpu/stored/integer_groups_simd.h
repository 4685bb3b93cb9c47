// Groups of integers with a scale in bf16 or f16. Internal to each file that includes it.
#pragma once

#include <cstring>
#include <type_traits>

#include "backends/cpu/stored/integer_steps_simd.h"

namespace lamina::cpu {
namespace {

// 8 bits, signed, or 4 bits, whose low nibbles are the first half of the group. 4 bits are 8 larger
// than the integer, or have a zero point after the scale.
template <int kBits, int kGroup, typename Scale = bfloat16, bool kZero = false>
struct Group {
  static constexpr int kValues = kGroup, kAt = kZero ? 4 : 2, kBytes = kAt + kGroup * kBits / 8;
  static constexpr int kOffset = kZero ? 0 : 1 << (kBits - 1);
  static constexpr bool kHasMinimum = kZero;
  static constexpr int kScaleValues = 32;
  using X = std::conditional_t<kBits == 4 && kGroup == 32, QuantisedHalves, QuantisedStep>;

  LAMINA_SIMD static float number(const std::byte* p) {
    if constexpr (std::is_same_v<Scale, bfloat16>)
      return bf16_at(p);
    else
      return f16_at(p);
  }
  LAMINA_SIMD static float minimum(const std::byte* p) { return -(number(p) * number(p + 2)); }

  static void unpack(const std::byte* p, std::uint8_t* codes) {
    if constexpr (kBits == 8)
      for (int i = 0; i < kGroup; ++i) codes[i] = static_cast<std::uint8_t>(byte_at(p + i) ^ 128);
    else
      for (int i = 0; i < kGroup / 2; ++i) {
        codes[i] = static_cast<std::uint8_t>(byte_at(p + i) & 15);
        codes[i + kGroup / 2] = static_cast<std::uint8_t>(byte_at(p + i) >> 4);
      }
  }
  static void plain(const std::byte* p, int step, PlainStep* out) {
    constexpr int kGroups = kGroup == 32 ? 2 : 1, kGroupLanes = kLanes / kGroups;
    std::uint8_t all[kGroups * kGroup];
    for (int g = 0; g < kGroups; ++g, p += kBytes) {
      unpack(p + kAt, all + g * kGroup);
      out->fill(out->scales, g * kGroupLanes, kGroupLanes, number(p));
      if constexpr (kZero) out->fill(out->minima, g * kGroupLanes, kGroupLanes, minimum(p));
    }
    std::memcpy(out->codes, all + kStepValues * step, kStepValues);
  }
#if defined(__AVX512F__)
  struct Opened {
    Float scales, minima;
  };
  // The numbers at p of one group, or of two groups in eight lanes each.
  LAMINA_SIMD static Float numbers(const std::byte* p, int word) {
    if constexpr (kGroup > 32)
      return splat(number(p + 2 * word));
    else if constexpr (std::is_same_v<Scale, bfloat16>)
      return bf16_pair<kBytes / 2>(p, word);
    else
      return f16_pair<kBytes / 2>(p, word);
  }
  LAMINA_SIMD static Opened open(const std::byte* p) {
    const Float scales = numbers(p, 0);
    return {scales, kZero ? -(scales * numbers(p, 1)) : scales};
  }
  LAMINA_SIMD static __m512i codes(const std::byte* p, int step) {
    if constexpr (kBits == 8) {
      const __m512i bytes = kGroup == 32 ? both(load_256(p + kAt), load_256(p + kBytes + kAt))
                                         : load_512(p + kAt + kStepValues * step);
      return _mm512_xor_si512(bytes, _mm512_set1_epi8(-128));
    } else if constexpr (kGroup == 32) {
      return nibbles_of_pair(p + kAt, p + kBytes + kAt);
    } else if constexpr (kGroup == 64) {
      return low_then_high(load_256(p + kAt));
    } else {
      const __m512i bytes = load_512(p + kAt);
      return nibbles(step == 0 ? bytes : _mm512_srli_epi16(bytes, 4));
    }
  }
  LAMINA_SIMD static Float scales(const Opened& o, const std::byte*, int) { return o.scales; }
  LAMINA_SIMD static Float minima(const Opened& o, const std::byte*, int) { return o.minima; }

  LAMINA_SIMD static void halves(const std::byte* p, __m512i (&codes)[2]) {
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
#endif
};

}  // namespace
}  // namespace lamina::cpu
