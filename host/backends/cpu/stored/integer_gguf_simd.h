// GGUF's formats of integers times scales: Q8_0, Q4_0 to Q5_1, Q4_K, Q5_K and Q6_K. Internal to
// each file that includes it.
#pragma once

#include <type_traits>

#include "backends/cpu/stored/integer_steps_simd.h"

namespace lamina::cpu {
namespace {

// ---- 32 values ----------------------------------------------------------------------------------

struct Q8_0 {
  static constexpr int kValues = 32, kBytes = 34, kOffset = 128;
  static constexpr bool kHasMinimum = false;
  static constexpr int kScaleValues = 32;
  using X = QuantisedStep;
  static void plain(const std::byte* p, int, PlainStep* out) {
    for (int half = 0; half < 2; ++half, p += kBytes) {
      for (int i = 0; i < 32; ++i)
        out->codes[32 * half + i] = static_cast<std::uint8_t>(byte_at(p + 2 + i) ^ 128);
      out->fill(out->scales, 8 * half, 8, f16_at(p));
    }
  }
#if defined(__AVX512F__)
  LAMINA_SIMD static None open(const std::byte*) { return {}; }
  LAMINA_SIMD static __m512i codes(const std::byte* p, int) {
    return _mm512_xor_si512(both(load_256(p + 2), load_256(p + kBytes + 2)),
                            _mm512_set1_epi8(-128));
  }
  LAMINA_SIMD static Float scales(None, const std::byte* p, int) {
    const __m512i lanes =
        both(_mm256_set_m128i(_mm_set1_epi16(17), _mm_setzero_si128()), _mm256_setzero_si256());
    return {_mm512_cvtph_ps(_mm512_castsi512_si256(_mm512_permutexvar_epi16(lanes, load_512(p))))};
  }
#endif
};

// Four or five bits; see Bits in widen_simd.cc.
template <bool kMinimum, bool kFifthBit>
struct FourOrFive {
  static constexpr int kAt = kMinimum ? 4 : 2, kPairs = kFifthBit ? kAt + 4 : kAt;
  static constexpr int kValues = 32, kBytes = kPairs + 16;
  static constexpr int kOffset = kMinimum ? 0 : kFifthBit ? 16 : 8;
  static constexpr bool kHasMinimum = kMinimum;
  static constexpr int kScaleValues = 32;
  using X = std::conditional_t<kFifthBit, QuantisedStep, QuantisedHalves>;

  LAMINA_SIMD static std::uint32_t fifth_bits(const std::byte* p) {
    std::uint32_t bits;
    __builtin_memcpy(&bits, p + kAt, sizeof bits);
    return bits;
  }
  static void plain(const std::byte* p, int, PlainStep* out) {
    for (int half = 0; half < 2; ++half, p += kBytes) {
      std::uint8_t* codes = out->codes + 32 * half;
      for (int i = 0; i < 16; ++i) {
        codes[i] = static_cast<std::uint8_t>(byte_at(p + kPairs + i) & 15);
        codes[i + 16] = static_cast<std::uint8_t>(byte_at(p + kPairs + i) >> 4);
      }
      if constexpr (kFifthBit)
        for (int i = 0; i < 32; ++i)
          codes[i] = static_cast<std::uint8_t>(codes[i] | (fifth_bits(p) >> i & 1) << 4);
      out->fill(out->scales, 8 * half, 8, f16_at(p));
      if constexpr (kMinimum) out->fill(out->minima, 8 * half, 8, f16_at(p + 2));
    }
  }
#if defined(__AVX512F__)
  LAMINA_SIMD static None open(const std::byte*) { return {}; }
  LAMINA_SIMD static __m512i codes(const std::byte* p, int) {
    const __m512i four = nibbles_of_pair(p + kPairs, p + kBytes + kPairs);
    if constexpr (!kFifthBit) return four;
    return with_fifth_bit(four, fifth_bits(p) | std::uint64_t{fifth_bits(p + kBytes)} << 32);
  }
  LAMINA_SIMD static Float scales(None, const std::byte* p, int) { return f16_pair<kBytes / 2>(p); }
  LAMINA_SIMD static Float minima(None, const std::byte* p, int) {
    return f16_pair<kBytes / 2>(p, 1);
  }
  LAMINA_SIMD static void halves(const std::byte* p, __m512i (&codes)[2]) {
    nibbles_of_four<kBytes>(p + kPairs, codes);
  }
  LAMINA_SIMD static Float scales_of_four(const std::byte* p) { return f16_of_four<kBytes>(p, 0); }
  LAMINA_SIMD static Float minima_of_four(const std::byte* p) { return f16_of_four<kBytes>(p, 1); }
#endif
};

// ---- 256 values ---------------------------------------------------------------------------------

// Eight parts of 32 with a scale and a minimum each; see FourOrFiveK in widen_simd.cc.
template <bool kFifthBit>
struct FourOrFiveK {
  static constexpr int kValues = 256, kBytes = kFifthBit ? 176 : 144, kPairs = kFifthBit ? 48 : 16;
  static constexpr int kOffset = 0;
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
  static void plain(const std::byte* p, int step, PlainStep* out) {
    const std::byte* pairs = p + kPairs + 32 * step;
    for (int i = 0; i < 32; ++i) {
      out->codes[i] = static_cast<std::uint8_t>(byte_at(pairs + i) & 15);
      out->codes[i + 32] = static_cast<std::uint8_t>(byte_at(pairs + i) >> 4);
    }
    if constexpr (kFifthBit)
      for (int i = 0; i < kStepValues; ++i)
        out->codes[i] = static_cast<std::uint8_t>(
            out->codes[i] | (byte_at(p + 16 + i % 32) >> (2 * step + i / 32) & 1) << 4);
    const Bytes8 parts = unpack(p);
    for (int half = 0; half < 2; ++half) {
      const int shift = 8 * (2 * step + half);
      out->fill(out->scales, 8 * half, 8,
                f16_at(p) * static_cast<float>(parts.scales >> shift & 255));
      out->fill(out->minima, 8 * half, 8,
                -(f16_at(p + 2) * static_cast<float>(parts.minima >> shift & 255)));
    }
  }
#if defined(__AVX512F__)
  struct Opened {
    __m512 scales, minima;  // of the parts, in the first eight lanes
  };
  LAMINA_SIMD static __m512 parts(std::uint64_t bytes, float scale) {
    const __m256i numbers = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<long long>(bytes)));
    return _mm512_castps256_ps512(
        _mm256_mul_ps(_mm256_cvtepi32_ps(numbers), _mm256_set1_ps(scale)));
  }
  LAMINA_SIMD static Opened open(const std::byte* p) {
    const Bytes8 bytes = unpack(p);
    return {parts(bytes.scales, f16_at(p)), parts(bytes.minima, -f16_at(p + 2))};
  }
  LAMINA_SIMD static __m512i codes(const std::byte* p, int step) {
    const __m512i four = low_then_high(load_256(p + kPairs + 32 * step));
    if constexpr (!kFifthBit) return four;
    const auto bit = [&](int part) { return _mm256_set1_epi8(static_cast<char>(1 << part)); };
    return with_fifth_bit(four, _mm512_test_epi8_mask(twice(load_256(p + 16)),
                                                      both(bit(2 * step), bit(2 * step + 1))));
  }
  LAMINA_SIMD static Float scales(const Opened& o, const std::byte*, int step) {
    return {numbers_of_two(o.scales, 2 * step, 2 * step + 1)};
  }
  LAMINA_SIMD static Float minima(const Opened& o, const std::byte*, int step) {
    return {numbers_of_two(o.minima, 2 * step, 2 * step + 1)};
  }
  LAMINA_SIMD static void part_codes(const std::byte* p, int pair, __m512i (&codes)[2]) {
    const __m512i bytes = load_512(p + kPairs + 64 * pair);
    codes[0] = nibbles(bytes);
    codes[1] = nibbles(_mm512_srli_epi16(bytes, 4));
    if constexpr (kFifthBit) {
      const __m512i fifth = twice(load_256(p + 16));
      const auto bit = [&](int part) { return _mm256_set1_epi8(static_cast<char>(1 << part)); };
      for (int i = 0; i < 2; ++i) {
        const __m512i bits = both(bit(4 * pair + i), bit(4 * pair + i + 2));
        codes[i] = with_fifth_bit(codes[i], _mm512_test_epi8_mask(fifth, bits));
      }
    }
  }
#endif
};

// Two halves of 128 in parts of 32; 16 values share a scale. See Q6K in widen_simd.cc.
struct Q6K {
  static constexpr int kValues = 256, kBytes = 210, kOffset = 32;
  static constexpr bool kHasMinimum = false;
  static constexpr int kScaleValues = 16;
  using X = QuantisedStep;

  static void plain(const std::byte* p, int step, PlainStep* out) {
    const int half = step / 2;
    const std::byte *pairs = p + half * 64, *upper = p + 128 + half * 32;
    for (int i = 0; i < kStepValues; ++i) {
      const int part = step % 2 * 2 + i / 32, pair = byte_at(pairs + i);
      out->codes[i] = static_cast<std::uint8_t>((part < 2 ? pair & 15 : pair >> 4) |
                                                (byte_at(upper + i % 32) >> 2 * part & 3) << 4);
    }
    for (int i = 0; i < 4; ++i)
      out->fill(out->scales, 4 * i, 4,
                f16_at(p + 208) *
                    static_cast<float>(std::to_integer<std::int8_t>(p[192 + 4 * step + i])));
  }
#if defined(__AVX512F__)
  LAMINA_SIMD static Float open(const std::byte* p) { return splat(f16_at(p + 208)); }
  LAMINA_SIMD static __m512i codes(const std::byte* p, int step) {
    const __m512i pairs = load_512(p + step / 2 * 64);
    const __m512i upper = twice(load_256(p + 128 + step / 2 * 32));
    const auto by = [](short first, short second) {
      return both(_mm256_set1_epi16(first), _mm256_set1_epi16(second));
    };
    const __m512i bits =
        step % 2 == 0 ? _mm512_sllv_epi16(upper, by(4, 2)) : _mm512_srlv_epi16(upper, by(0, 2));
    return _mm512_or_si512(nibbles(step % 2 == 0 ? pairs : _mm512_srli_epi16(pairs, 4)),
                           _mm512_and_si512(bits, _mm512_set1_epi8(0x30)));
  }
  LAMINA_SIMD static Float scales(Float opened, const std::byte* p, int step) {
    std::int32_t four;
    __builtin_memcpy(&four, p + 192 + 4 * step, sizeof four);
    const __m128i lanes = _mm_shuffle_epi8(
        _mm_cvtsi32_si128(four), _mm_setr_epi8(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3));
    return opened * Float{_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(lanes))};
  }
#endif
};

}  // namespace
}  // namespace lamina::cpu
