// GGUF's formats of integers times scales: Q8_0, Q4_0 to Q5_1, Q4_K, Q5_K and Q6_K. Internal to
// each file that includes it.
#pragma once

#include <type_traits>

#include "backends/cpu/stored/integer_steps_simd.h"

namespace lamina::cpu {
namespace {

// ---- 32 values ----------------------------------------------------------------------------------

struct Q8_0 {
  static constexpr int kValues = 32, kBytes = 34, kOffset = 128, kMaxCode = 255;
  static constexpr bool kHasMinimum = false;
  static constexpr int kScaleValues = 32;
  using X = QuantisedStep;

  LAMINA_SIMD static None open(const std::byte*) { return {}; }
  LAMINA_SIMD static Codes codes(const std::byte* p, int) {
    return both(load_bytes32(p + 2), load_bytes32(p + kBytes + 2)) ^ splat<Codes>(128);
  }
  LAMINA_SIMD static Float scales(None, const std::byte* p, int) { return f16_pair<kBytes / 2>(p); }
};

// Four or five bits; see Bits in widen_simd.cc.
template <bool kMinimum, bool kFifthBit>
struct FourOrFive {
  static constexpr int kAt = kMinimum ? 4 : 2, kPairs = kFifthBit ? kAt + 4 : kAt;
  static constexpr int kValues = 32, kBytes = kPairs + 16;
  static constexpr int kOffset = kMinimum ? 0 : kFifthBit ? 16 : 8;
  static constexpr int kMaxCode = kFifthBit ? 31 : 15;
  static constexpr bool kHasMinimum = kMinimum;
  static constexpr int kScaleValues = 32;
  using X = std::conditional_t<kFifthBit, QuantisedStep, QuantisedHalves>;

  LAMINA_SIMD static std::uint32_t fifth_bits(const std::byte* p) {
    std::uint32_t bits;
    __builtin_memcpy(&bits, p + kAt, sizeof bits);
    return bits;
  }

  LAMINA_SIMD static None open(const std::byte*) { return {}; }
  LAMINA_SIMD static Codes codes(const std::byte* p, int) {
    const Codes four = nibbles_of_pair(p + kPairs, p + kBytes + kPairs);
    if constexpr (!kFifthBit) return four;
    return with_fifth_bits(four, fifth_bits(p), fifth_bits(p + kBytes));
  }
  LAMINA_SIMD static Float scales(None, const std::byte* p, int) { return f16_pair<kBytes / 2>(p); }
  LAMINA_SIMD static Float minima(None, const std::byte* p, int) {
    return f16_pair<kBytes / 2>(p, 1);
  }
  LAMINA_SIMD static void halves(const std::byte* p, Codes (&codes)[2]) {
    nibbles_of_four<kBytes>(p + kPairs, codes);
  }
  LAMINA_SIMD static Float scales_of_four(const std::byte* p) { return f16_of_four<kBytes>(p, 0); }
  LAMINA_SIMD static Float minima_of_four(const std::byte* p) { return f16_of_four<kBytes>(p, 1); }
};

// ---- 256 values ---------------------------------------------------------------------------------

// Eight parts of 32 with a scale and a minimum each; see FourOrFiveK in widen_simd.cc.
template <bool kFifthBit>
struct FourOrFiveK {
  static constexpr int kValues = 256, kBytes = kFifthBit ? 176 : 144, kPairs = kFifthBit ? 48 : 16;
  static constexpr int kOffset = 0, kMaxCode = kFifthBit ? 31 : 15;
  static constexpr bool kHasMinimum = true;
  static constexpr int kScaleValues = 32;
  using X = QuantisedParts;

  // Eight numbers of 6 bits each, as bytes; see formats/block_formats.cc.
  struct Bytes8 {
    std::uint64_t scales, minima;
  };
  LAMINA_SIMD static Bytes8 unpack(const std::byte* p) {
    std::uint32_t a[3];
    __builtin_memcpy(a, p + 4, sizeof a);
    const std::uint64_t scales = (a[2] & 0x0f0f0f0fu) | (a[0] >> 2 & 0x30303030u);
    const std::uint64_t minima = (a[2] >> 4 & 0x0f0f0f0fu) | (a[1] >> 2 & 0x30303030u);
    return {(a[0] & 0x3f3f3f3fu) | scales << 32, (a[1] & 0x3f3f3f3fu) | minima << 32};
  }
  struct Parts {
    Eight scales, minima;
  };
  LAMINA_SIMD static Parts parts(const std::byte* p) {
    const Bytes8 bytes = unpack(p);
    return {eight_bytes(bytes.scales) * splat<Eight>(f16_at(p)),
            eight_bytes(bytes.minima) * splat<Eight>(-f16_at(p + 2))};
  }
  LAMINA_SIMD static ScalesAndMinima open(const std::byte* p) {
    const Parts of = parts(p);
    return {Numbers::of(of.scales), Numbers::of(of.minima)};
  }
  LAMINA_SIMD static Codes codes(const std::byte* p, int step) {
    const Codes four = low_then_high(load_bytes32(p + kPairs + 32 * step));
    if constexpr (!kFifthBit) return four;
    return with_bit_of<4>(four, load_bytes32(p + 16), 2 * step, 2 * step + 1);
  }
  LAMINA_SIMD static Float scales(const ScalesAndMinima& o, const std::byte*, int step) {
    return o.scales.two(2 * step, 2 * step + 1);
  }
  LAMINA_SIMD static Float minima(const ScalesAndMinima& o, const std::byte*, int step) {
    return o.minima.two(2 * step, 2 * step + 1);
  }
  LAMINA_SIMD static void part_codes(const std::byte* p, int pair, Codes (&codes)[2]) {
    const Codes bytes = load_codes(p + kPairs + 64 * pair);
    codes[0] = low_nibbles(bytes);
    codes[1] = high_nibbles(bytes);
    if constexpr (kFifthBit)
      for (int i = 0; i < 2; ++i)
        codes[i] = with_bit_of<4>(codes[i], load_bytes32(p + 16), 4 * pair + i, 4 * pair + i + 2);
  }
};

// Two halves of 128 in parts of 32; 16 values share a scale. See Q6K in widen_simd.cc.
struct Q6K {
  static constexpr int kValues = 256, kBytes = 210, kOffset = 32, kMaxCode = 63;
  static constexpr bool kHasMinimum = false;
  static constexpr int kScaleValues = 16;
  using X = QuantisedStep;

  LAMINA_SIMD static Float open(const std::byte* p) { return splat(f16_at(p + 208)); }
  LAMINA_SIMD static Codes codes(const std::byte* p, int step) {
    const Codes pairs = load_codes(p + step / 2 * 64);
    const Bytes32 upper = load_bytes32(p + 128 + step / 2 * 32);
    const Codes bits = step % 2 == 0 ? twice_left(upper, 4, 2) : twice_right(upper, 0, 2);
    return (step % 2 == 0 ? low_nibbles(pairs) : high_nibbles(pairs)) | (bits & splat<Codes>(0x30));
  }
  LAMINA_SIMD static Float scales(Float opened, const std::byte* p, int step) {
    return opened * four_signed_bytes(p + 192 + 4 * step);
  }
};

}  // namespace
}  // namespace lamina::cpu
