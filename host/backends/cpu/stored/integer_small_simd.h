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

// 16 bytes whose low nibbles are the first 16 codes.
inline void plain_iq4(const std::byte* pairs, std::uint8_t* codes) {
  for (int i = 0; i < 16; ++i) {
    codes[i] = kIq4Codes[static_cast<std::size_t>(byte_at(pairs + i) & 15)];
    codes[i + 16] = kIq4Codes[static_cast<std::size_t>(byte_at(pairs + i) >> 4)];
  }
}

struct Iq4Nl {
  static constexpr int kValues = 32, kBytes = 18, kOffset = 128;
  static constexpr bool kHasMinimum = false;
  static constexpr int kScaleValues = 32;
  using X = QuantisedHalves;
  static void plain(const std::byte* p, int, PlainStep* out) {
    for (int half = 0; half < 2; ++half, p += kBytes) {
      plain_iq4(p + 2, out->codes + 32 * half);
      out->fill(out->scales, 8 * half, 8, f16_at(p));
    }
  }
#if defined(__AVX512F__)
  LAMINA_SIMD static None open(const std::byte*) { return {}; }
  LAMINA_SIMD static __m512i codes(const std::byte* p, int) {
    return from_table(kIq4Codes.data(), nibbles_of_pair(p + 2, p + kBytes + 2));
  }
  LAMINA_SIMD static Float scales(None, const std::byte* p, int) { return f16_pair<kBytes / 2>(p); }
  LAMINA_SIMD static void halves(const std::byte* p, __m512i (&codes)[2]) {
    nibbles_of_four<kBytes>(p + 2, codes);
    for (__m512i& half : codes) half = from_table(kIq4Codes.data(), half);
  }
  LAMINA_SIMD static Float scales_of_four(const std::byte* p) { return f16_of_four<kBytes>(p, 0); }
#endif
};

// Eight parts of 32, whose scales have 6 bits: the upper two in 16 bits, then the lower four.
struct Iq4Xs {
  static constexpr int kValues = 256, kBytes = 136, kOffset = 128;
  static constexpr bool kHasMinimum = false;
  static constexpr int kScaleValues = 32;
  using X = QuantisedStep;

  struct Packed {
    std::uint16_t upper;
    std::uint32_t lower;
  };
  LAMINA_SIMD static Packed packed(const std::byte* p) {
    Packed out;
    __builtin_memcpy(&out.upper, p + 2, sizeof out.upper);
    __builtin_memcpy(&out.lower, p + 4, sizeof out.lower);
    return out;
  }
  static void plain(const std::byte* p, int step, PlainStep* out) {
    const Packed scales = packed(p);
    for (int half = 0; half < 2; ++half) {
      const int part = 2 * step + half;
      plain_iq4(p + 8 + 16 * part, out->codes + 32 * half);
      const auto lower = static_cast<int>(scales.lower >> 4 * part & 15);
      const int scale = (lower | (scales.upper >> 2 * part & 3) << 4) - 32;
      out->fill(out->scales, 8 * half, 8, f16_at(p) * static_cast<float>(scale));
    }
  }
#if defined(__AVX512F__)
  LAMINA_SIMD static __m512 open(const std::byte* p) {
    const Packed scales = packed(p);
    const __m256i lower =
        _mm256_srlv_epi32(_mm256_set1_epi32(static_cast<std::int32_t>(scales.lower)),
                          _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28));
    const __m256i upper = _mm256_srlv_epi32(_mm256_set1_epi32(scales.upper << 4),
                                            _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14));
    const __m256i both = _mm256_or_si256(_mm256_and_si256(lower, _mm256_set1_epi32(15)),
                                         _mm256_and_si256(upper, _mm256_set1_epi32(0x30)));
    const __m256 numbers = _mm256_cvtepi32_ps(_mm256_sub_epi32(both, _mm256_set1_epi32(32)));
    return _mm512_castps256_ps512(_mm256_mul_ps(numbers, _mm256_set1_ps(f16_at(p))));
  }
  LAMINA_SIMD static __m512i codes(const std::byte* p, int step) {
    const std::byte* pairs = p + 8 + 32 * step;
    return from_table(kIq4Codes.data(), nibbles_of_pair(pairs, pairs + 16));
  }
  LAMINA_SIMD static Float scales(__m512 opened, const std::byte*, int step) {
    return {numbers_of_two(opened, 2 * step, 2 * step + 1)};
  }
#endif
};

// Two bits of the 64 values of a step; two steps share 32 bytes of `pairs`.
inline int two_bits(const std::byte* pairs, int step, int i) {
  return byte_at(pairs + step / 2 * 32 + i % 32) >> (step % 2 * 2 + i / 32) * 2 & 3;
}
#if defined(__AVX512F__)
LAMINA_SIMD __m512i two_bits(const std::byte* pairs, int step) {
  const int first = step % 2 * 4;
  const __m512i by = both(_mm256_set1_epi16(static_cast<short>(first)),
                          _mm256_set1_epi16(static_cast<short>(first + 2)));
  return _mm512_and_si512(_mm512_srlv_epi16(twice(load_256(pairs + step / 2 * 32)), by),
                          _mm512_set1_epi8(3));
}
#endif

// 16 bytes, the scale of 16 values in the low nibble and their minimum in the high one; 64 bytes of
// two bits each; then the factors of scales and minima.
struct Q2K {
  static constexpr int kValues = 256, kBytes = 84, kOffset = 0;
  static constexpr bool kHasMinimum = true;
  static constexpr int kScaleValues = 16;
  using X = QuantisedStep;

  static void plain(const std::byte* p, int step, PlainStep* out) {
    for (int i = 0; i < kStepValues; ++i)
      out->codes[i] = static_cast<std::uint8_t>(two_bits(p + 16, step, i));
    for (int i = 0; i < 4; ++i) {
      const int both = byte_at(p + 4 * step + i);
      out->fill(out->scales, 4 * i, 4, f16_at(p + 80) * static_cast<float>(both & 15));
      out->fill(out->minima, 4 * i, 4, -(f16_at(p + 82) * static_cast<float>(both >> 4)));
    }
  }
#if defined(__AVX512F__)
  struct Opened {
    __m512 scales, minima;  // of 16 values each
  };
  LAMINA_SIMD static Opened open(const std::byte* p) {
    const __m512i both = _mm512_cvtepu8_epi32(load_128(p));
    const __m512i scales = _mm512_and_si512(both, _mm512_set1_epi32(15));
    return {_mm512_cvtepi32_ps(scales) * _mm512_set1_ps(f16_at(p + 80)),
            _mm512_cvtepi32_ps(_mm512_srli_epi32(both, 4)) * _mm512_set1_ps(-f16_at(p + 82))};
  }
  LAMINA_SIMD static __m512i codes(const std::byte* p, int step) { return two_bits(p + 16, step); }
  LAMINA_SIMD static Float scales(const Opened& o, const std::byte*, int step) {
    return {numbers_of_four(o.scales, 4 * step)};
  }
  LAMINA_SIMD static Float minima(const Opened& o, const std::byte*, int step) {
    return {numbers_of_four(o.minima, 4 * step)};
  }
#endif
};

// 32 bytes of third bits, 64 of two bits each, then 16 scales of 6 bits, each for 16 values: the
// low nibbles of eight bytes, their high nibbles, and the upper bits in four bytes that follow.
struct Q3K {
  static constexpr int kValues = 256, kBytes = 110, kOffset = 4;
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
  static void plain(const std::byte* p, int step, PlainStep* out) {
    for (int i = 0; i < kStepValues; ++i) {
      const int third = byte_at(p + i % 32) >> (2 * step + i / 32) & 1;
      out->codes[i] = static_cast<std::uint8_t>(two_bits(p + 32, step, i) | third << 2);
    }
    const Bytes16 scales = unpack(p);
    for (int i = 0; i < 4; ++i) {
      const int part = 4 * step + i;
      const auto scale =
          static_cast<int>((part < 8 ? scales.first : scales.second) >> 8 * (part % 8) & 255) - 32;
      out->fill(out->scales, 4 * i, 4, f16_at(p + 108) * static_cast<float>(scale));
    }
  }
#if defined(__AVX512F__)
  LAMINA_SIMD static Float open(const std::byte* p) {
    const Bytes16 scales = unpack(p);
    const __m512i numbers = _mm512_cvtepu8_epi32(_mm_set_epi64x(
        static_cast<long long>(scales.second), static_cast<long long>(scales.first)));
    return Float{_mm512_cvtepi32_ps(_mm512_sub_epi32(numbers, _mm512_set1_epi32(32)))} *
           splat(f16_at(p + 108));
  }
  LAMINA_SIMD static __m512i codes(const std::byte* p, int step) {
    const __m512i two = two_bits(p + 32, step);
    const auto bit = [](int part) { return _mm256_set1_epi8(static_cast<char>(1 << part)); };
    const __mmask64 third =
        _mm512_test_epi8_mask(twice(load_256(p)), both(bit(2 * step), bit(2 * step + 1)));
    return _mm512_mask_add_epi8(two, third, two, _mm512_set1_epi8(4));
  }
  LAMINA_SIMD static Float scales(Float opened, const std::byte*, int step) {
    return {numbers_of_four(opened.raw, 4 * step)};
  }
#endif
};

}  // namespace
}  // namespace lamina::cpu
