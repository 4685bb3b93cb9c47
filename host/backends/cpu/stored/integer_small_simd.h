// GGUF's formats Q2_K, Q3_K, IQ4_NL and IQ4_XS. Internal to each file that includes it.
#pragma once

#include <array>

#include "backends/cpu/stored/integer_steps_simd.h"
#include "formats/iq4.h"

namespace lamina::cpu {
namespace {

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
