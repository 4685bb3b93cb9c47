// GGUF's formats of integers times scales: Q8_0, Q4_0 to Q5_1, Q2_K to Q6_K, IQ4_NL and IQ4_XS.
// Internal to each file that includes it.
#pragma once

#include <array>
#include <type_traits>

#include "backends/cpu/stored/integer_steps_simd.h"
#include "formats/iq4.h"

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

// ---- IQ4, Q2_K and Q3_K -------------------------------------------------------------------------

// IQ4's numbers plus 128.
constexpr std::array<std::uint8_t, 16> iq4_codes() {
  std::array<std::uint8_t, 16> out{};
  for (std::size_t i = 0; i < 16; ++i) out[i] = static_cast<std::uint8_t>(formats::kIq4[i] + 128);
  return out;
}
constexpr std::array<std::uint8_t, 16> kIq4Codes = iq4_codes();

struct Iq4Nl {
  static constexpr int kValues = 32, kBytes = 18, kOffset = 128, kMaxCode = 255;
  static constexpr bool kHasMinimum = false;
  static constexpr int kScaleValues = 32;
  using X = QuantisedHalves;

  LAMINA_SIMD static None open(const std::byte*) { return {}; }
  LAMINA_SIMD static Codes codes(const std::byte* p, int) {
    return from_table(kIq4Codes.data(), nibbles_of_pair(p + 2, p + kBytes + 2));
  }
  LAMINA_SIMD static Float scales(None, const std::byte* p, int) { return f16_pair<kBytes / 2>(p); }
  LAMINA_SIMD static void halves(const std::byte* p, Codes (&codes)[2]) {
    nibbles_of_four<kBytes>(p + 2, codes);
    for (Codes& half : codes) half = from_table(kIq4Codes.data(), half);
  }
  LAMINA_SIMD static Float scales_of_four(const std::byte* p) { return f16_of_four<kBytes>(p, 0); }
};

// Eight parts of 32, whose scales have 6 bits: the upper two in 16 bits, then the lower four.
struct Iq4Xs {
  static constexpr int kValues = 256, kBytes = 136, kOffset = 128, kMaxCode = 255;
  static constexpr bool kHasMinimum = false;
  static constexpr int kScaleValues = 32;
  using X = QuantisedStep;

  LAMINA_SIMD static Numbers open(const std::byte* p) {
    std::uint16_t upper;
    std::uint32_t lower;
    __builtin_memcpy(&upper, p + 2, sizeof upper);
    __builtin_memcpy(&lower, p + 4, sizeof lower);
#if defined(__AVX2__)
    const __m256i low = _mm256_srlv_epi32(_mm256_set1_epi32(static_cast<std::int32_t>(lower)),
                                          _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
    const __m256i high = _mm256_srlv_epi32(_mm256_set1_epi32(upper << 4),
                                           _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14));
    const __m256i scales = _mm256_or_si256(_mm256_and_si256(low, _mm256_set1_epi32(15)),
                                           _mm256_and_si256(high, _mm256_set1_epi32(0x30)));
    const Eight numbers = {_mm256_cvtepi32_ps(_mm256_sub_epi32(scales, _mm256_set1_epi32(32)))};
#else
    float lanes[8];
    for (int i = 0; i < 8; ++i) {
      const auto low = static_cast<int>(lower >> 4 * i & 15);
      lanes[i] = static_cast<float>((low | (upper >> 2 * i & 3) << 4) - 32);
    }
    const Eight numbers = load_raw<Eight>(lanes);
#endif
    return Numbers::of(numbers * splat<Eight>(f16_at(p)));
  }
  LAMINA_SIMD static Codes codes(const std::byte* p, int step) {
    const std::byte* pairs = p + 8 + 32 * step;
    return from_table(kIq4Codes.data(), nibbles_of_pair(pairs, pairs + 16));
  }
  LAMINA_SIMD static Float scales(const Numbers& opened, const std::byte*, int step) {
    return opened.two(2 * step, 2 * step + 1);
  }
};

// Two bits of the 64 values of a step; two steps share 32 bytes of `pairs`.
LAMINA_SIMD Codes two_bits(const std::byte* pairs, int step) {
  const int first = step % 2 * 4;
  return twice_right(load_bytes32(pairs + step / 2 * 32), first, first + 2) & splat<Codes>(3);
}

// 16 bytes, the scale of 16 values in the low nibble and their minimum in the high one; 64 bytes of
// two bits each; then the factors of scales and minima.
struct Q2K {
  static constexpr int kValues = 256, kBytes = 84, kOffset = 0, kMaxCode = 3;
  static constexpr bool kHasMinimum = true;
  static constexpr int kScaleValues = 16;
  using X = QuantisedStep;

  LAMINA_SIMD static ScalesAndMinima open(const std::byte* p) {
    const Bytes both = load_bytes(p);
    const Float scales = convert<Float>(unsigned_lanes(low_nibbles(both)));
    const Float minima = convert<Float>(unsigned_lanes(high_nibbles(both)));
    return {Numbers::of(scales * splat(f16_at(p + 80))),
            Numbers::of(minima * splat(-f16_at(p + 82)))};
  }
  LAMINA_SIMD static Codes codes(const std::byte* p, int step) { return two_bits(p + 16, step); }
  LAMINA_SIMD static Float scales(const ScalesAndMinima& o, const std::byte*, int step) {
    return o.scales.four(4 * step);
  }
  LAMINA_SIMD static Float minima(const ScalesAndMinima& o, const std::byte*, int step) {
    return o.minima.four(4 * step);
  }
};

// 32 bytes of third bits, 64 of two bits each, then 16 scales of 6 bits, each for 16 values: the
// low nibbles of eight bytes, their high nibbles, and the upper bits in four bytes that follow.
struct Q3K {
  static constexpr int kValues = 256, kBytes = 110, kOffset = 4, kMaxCode = 7;
  static constexpr bool kHasMinimum = false;
  static constexpr int kScaleValues = 16;
  using X = QuantisedStep;

  struct Bytes16 {
    std::uint64_t first, second;
  };
  LAMINA_SIMD static Bytes16 unpack(const std::byte* p) {
    std::uint64_t lower;
    std::uint32_t upper;
    __builtin_memcpy(&lower, p + 96, sizeof lower);
    __builtin_memcpy(&upper, p + 104, sizeof upper);
    constexpr std::uint64_t kNibbles = 0x0f0f0f0f0f0f0f0f;
    constexpr std::uint32_t kPairs = 0x30303030;
    const auto eight = [](std::uint32_t a, std::uint32_t b) {
      return (a & kPairs) | std::uint64_t{b & kPairs} << 32;
    };
    return {(lower & kNibbles) | eight(upper << 4, upper << 2),
            (lower >> 4 & kNibbles) | eight(upper, upper >> 2)};
  }
  LAMINA_SIMD static Numbers open(const std::byte* p) {
    const Bytes16 scales = unpack(p);
    const Int numbers = unsigned_lanes(load_bits<Bytes>(&scales)) - splat<Int>(32);
    return Numbers::of(convert<Float>(numbers) * splat(f16_at(p + 108)));
  }
  LAMINA_SIMD static Codes codes(const std::byte* p, int step) {
    return with_bit_of<2>(two_bits(p + 32, step), load_bytes32(p), 2 * step, 2 * step + 1);
  }
  LAMINA_SIMD static Float scales(const Numbers& opened, const std::byte*, int step) {
    return opened.four(4 * step);
  }
};

}  // namespace
}  // namespace lamina::cpu
