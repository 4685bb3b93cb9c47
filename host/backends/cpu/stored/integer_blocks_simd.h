// Formats whose values are integers times scales, read 64 values at a time. Internal to each file
// that includes it.
//
//   struct X { kValues, kBytes;   // of a block
//              kOffset;           // code - kOffset is the integer; codes are unsigned bytes
//              kHasMinimum;       // value = scale * integer + minimum
//              kScaleValues;      // that share a scale: 16, or 32 and more
//              plain(blocks, step, PlainStep* out);   // 64 values; blocks of 32: two of them
//              open(blocks), codes(blocks, step), scales(...), minima(...); };   // AVX-512
//
// A scale belongs to a lane of 4 values: see QuantisedStep.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#include "backends/cpu/simd/memory.h"
#include "backends/cpu/stored/quantised_rows.h"
#include "formats/fp4.h"
#include "formats/fp8.h"

namespace lamina::cpu {
namespace {

constexpr int kStepValues = QuantisedStep::kValues;

struct PlainStep {
  alignas(64) std::uint8_t codes[kStepValues];
  float scales[kLanes], minima[kLanes];

  void fill(float* lanes, int first, int count, float value) {
    for (int i = first; i < first + count; ++i) lanes[i] = value;
  }
};

LAMINA_SIMD int byte_at(const std::byte* p) { return std::to_integer<int>(*p); }

LAMINA_SIMD float f16_at(const std::byte* p) {
  float16 value;
  __builtin_memcpy(&value, p, sizeof value);
#if defined(__F16C__)
  return _cvtsh_ss(value.bits);
#else
  return to_float(value);
#endif
}

LAMINA_SIMD float bf16_at(const std::byte* p) {
  std::uint16_t bits;
  __builtin_memcpy(&bits, p, sizeof bits);
  return widen(bits);
}

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

#if defined(__AVX512F__)
LAMINA_SIMD __m512i load_512(const std::byte* p) { return _mm512_loadu_si512(p); }
LAMINA_SIMD __m256i load_256(const std::byte* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
LAMINA_SIMD __m128i load_128(const std::byte* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}
LAMINA_SIMD __m512i nibbles(__m512i x) { return _mm512_and_si512(x, _mm512_set1_epi8(15)); }
// 32 bytes twice.
LAMINA_SIMD __m512i twice(__m256i x) { return _mm512_broadcast_i64x4(x); }
LAMINA_SIMD __m512i both(__m256i a, __m256i b) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1);
}
// The low nibbles of 32 bytes, then the high ones.
LAMINA_SIMD __m512i low_then_high(__m256i x) { return nibbles(both(x, _mm256_srli_epi16(x, 4))); }
// The nibbles of two blocks of 16 bytes: the low ones of the first, its high ones, and so on.
LAMINA_SIMD __m512i nibbles_of_pair(const std::byte* first, const std::byte* second) {
  const __m512i pairs = _mm512_mask_broadcast_i32x4(_mm512_broadcast_i32x4(load_128(first)), 0xff00,
                                                    load_128(second));
  return nibbles(_mm512_srlv_epi64(pairs, _mm512_setr_epi64(0, 0, 4, 4, 0, 0, 4, 4)));
}
// Adds 16 to bytes whose bit is set.
LAMINA_SIMD __m512i with_fifth_bit(__m512i codes, std::uint64_t bits) {
  return _mm512_mask_add_epi8(codes, bits, codes, _mm512_set1_epi8(16));
}
// Two f16 numbers in 32 bytes, at words 0 and `second`, each in eight lanes.
template <int second>
LAMINA_SIMD Float f16_pair(const std::byte* p, int first = 0) {
  const auto a = static_cast<short>(first), b = static_cast<short>(first + second);
  const __m256i lanes = _mm256_setr_epi16(a, a, a, a, a, a, a, a, b, b, b, b, b, b, b, b);
  return {_mm512_cvtph_ps(_mm256_permutexvar_epi16(lanes, load_256(p)))};
}
// Likewise in bf16: the words become the upper halves of lanes.
template <int second>
LAMINA_SIMD Float bf16_pair(const std::byte* p, int first) {
  const int a = first << 16, b = (first + second) << 16;
  const __m512i words = _mm512_setr_epi32(a, a, a, a, a, a, a, a, b, b, b, b, b, b, b, b);
  const __m512i from = second >= 15 ? load_512(p) : _mm512_castsi256_si512(load_256(p));
  return {reinterpret_cast<Float::Raw>(_mm512_maskz_permutexvar_epi16(0xaaaaaaaa, words, from))};
}
LAMINA_SIMD __m512i from_table(const std::uint8_t* table, __m512i nibbles) {
  const auto* bytes = reinterpret_cast<const __m128i*>(table);
  return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128(bytes)), nibbles);
}
#endif

// ---- 32 values
// -----------------------------------------------------------------------------------

struct None {};

struct Q8_0 {
  static constexpr int kValues = 32, kBytes = 34, kOffset = 128;
  static constexpr bool kHasMinimum = false;
  static constexpr int kScaleValues = 32;
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
#endif
};

struct Mxfp4 {
  static constexpr int kValues = 32, kBytes = 17, kOffset = 12;
  static constexpr bool kHasMinimum = false;
  static constexpr int kScaleValues = 32;
  LAMINA_SIMD static const float* scale_at(const std::byte* p) {
    return kHalfE8m0.data() + byte_at(p);
  }
  static void plain(const std::byte* p, int, PlainStep* out) {
    for (int half = 0; half < 2; ++half, p += kBytes) {
      for (int i = 0; i < 16; ++i) {
        out->codes[32 * half + i] = kE2m1Codes[byte_at(p + 1 + i) & 15];
        out->codes[32 * half + i + 16] = kE2m1Codes[byte_at(p + 1 + i) >> 4];
      }
      out->fill(out->scales, 8 * half, 8, *scale_at(p));
    }
  }
#if defined(__AVX512F__)
  LAMINA_SIMD static None open(const std::byte*) { return {}; }
  LAMINA_SIMD static __m512i codes(const std::byte* p, int) {
    return from_table(kE2m1Codes, nibbles_of_pair(p + 1, p + kBytes + 1));
  }
  LAMINA_SIMD static Float scales(None, const std::byte* p, int) {
    return {_mm512_mask_broadcastss_ps(_mm512_set1_ps(*scale_at(p)), 0xff00,
                                       _mm_load_ss(scale_at(p + kBytes)))};
  }
#endif
};

// ---- Groups of integers with a scale in bf16 or f16 ---------------------------------------------

// 8 bits, signed, or 4 bits, whose low nibbles are the first half of the group. 4 bits are 8 larger
// than the integer, or have a zero point after the scale.
template <int kBits, int kGroup, typename Scale = bfloat16, bool kZero = false>
struct Group {
  static constexpr int kValues = kGroup, kAt = kZero ? 4 : 2, kBytes = kAt + kGroup * kBits / 8;
  static constexpr int kOffset = kZero ? 0 : 1 << (kBits - 1);
  static constexpr bool kHasMinimum = kZero;
  static constexpr int kScaleValues = 32;

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
#endif
};

// ---- 64 values ----------------------------------------------------------------------------------

// MXFP4's values; a number in f32 divides the scales of 16 values each.
struct Nvfp4 {
  static constexpr int kValues = 64, kBytes = 40, kOffset = 12;
  static constexpr bool kHasMinimum = false;
  static constexpr int kScaleValues = 16;

  // The scale of doubled values.
  LAMINA_SIMD static float scale(const std::byte* p, int i) {
    float divisor;
    __builtin_memcpy(&divisor, p, sizeof divisor);
    return formats::kE4m3[static_cast<std::size_t>(byte_at(p + 4 + i))] / divisor * 0.5f;
  }
  static void plain(const std::byte* p, int, PlainStep* out) {
    for (int i = 0; i < 32; ++i) {
      out->codes[i] = kE2m1Codes[byte_at(p + 8 + i) & 15];
      out->codes[i + 32] = kE2m1Codes[byte_at(p + 8 + i) >> 4];
    }
    for (int i = 0; i < 4; ++i) out->fill(out->scales, 4 * i, 4, scale(p, i));
  }
#if defined(__AVX512F__)
  LAMINA_SIMD static None open(const std::byte*) { return {}; }
  LAMINA_SIMD static __m512i codes(const std::byte* p, int) {
    return from_table(kE2m1Codes, low_then_high(load_256(p + 8)));
  }
  LAMINA_SIMD static Float scales(None, const std::byte* p, int) {
    const __m128 four = _mm_setr_ps(scale(p, 0), scale(p, 1), scale(p, 2), scale(p, 3));
    return {_mm512_permutexvar_ps(_mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3),
                                  _mm512_castps128_ps512(four))};
  }
#endif
};

// ---- 256 values
// ----------------------------------------------------------------------------------

// Eight parts of 32 with a scale and a minimum each; see FourOrFiveK in widen_simd.cc.
template <bool kFifthBit>
struct FourOrFiveK {
  static constexpr int kValues = 256, kBytes = kFifthBit ? 176 : 144, kPairs = kFifthBit ? 48 : 16;
  static constexpr int kOffset = 0;
  static constexpr bool kHasMinimum = true;
  static constexpr int kScaleValues = 32;

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
  LAMINA_SIMD static Float lanes_of(__m512 parts, int step) {
    const int a = 2 * step, b = a + 1;
    return {_mm512_permutexvar_ps(_mm512_setr_epi32(a, a, a, a, a, a, a, a, b, b, b, b, b, b, b, b),
                                  parts)};
  }
  LAMINA_SIMD static Float scales(const Opened& o, const std::byte*, int step) {
    return lanes_of(o.scales, step);
  }
  LAMINA_SIMD static Float minima(const Opened& o, const std::byte*, int step) {
    return lanes_of(o.minima, step);
  }
#endif
};

// Two halves of 128 in parts of 32; 16 values share a scale. See Q6K in widen_simd.cc.
struct Q6K {
  static constexpr int kValues = 256, kBytes = 210, kOffset = 32;
  static constexpr bool kHasMinimum = false;
  static constexpr int kScaleValues = 16;

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

// All formats: calls LAMINA_INTEGER_FORMAT(name of the BlockFormat, its type above).
#define LAMINA_INTEGER_FORMATS                                       \
  LAMINA_INTEGER_FORMAT("Q4_0", FourOrFive<false, false>)            \
  LAMINA_INTEGER_FORMAT("Q4_1", FourOrFive<true, false>)             \
  LAMINA_INTEGER_FORMAT("Q5_0", FourOrFive<false, true>)             \
  LAMINA_INTEGER_FORMAT("Q5_1", FourOrFive<true, true>)              \
  LAMINA_INTEGER_FORMAT("Q8_0", Q8_0)                                \
  LAMINA_INTEGER_FORMAT("Q4_K", FourOrFiveK<false>)                  \
  LAMINA_INTEGER_FORMAT("Q5_K", FourOrFiveK<true>)                   \
  LAMINA_INTEGER_FORMAT("Q6_K", Q6K)                                 \
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
constexpr int kBytesOf = F::kBytes* std::max(1, kStepValues / F::kValues);  // of kStepsOf steps

#if defined(__AVX512F__)
using Codes = __m512i;

// The scales of the blocks of kStepsOf steps.
template <typename F>
using Opened = decltype(F::open(nullptr));
template <typename F>
LAMINA_SIMD Opened<F> open(const std::byte* p) {
  return F::open(p);
}
template <typename F>
LAMINA_SIMD void read_step(const Opened<F>& opened, const std::byte* p, int step, Codes& codes,
                           Float& scales, Float& minima) {
  codes = F::codes(p, step);
  scales = F::scales(opened, p, step);
  if constexpr (F::kHasMinimum) minima = F::minima(opened, p, step);
}
#else
using Codes = PlainStep;

template <typename F>
using Opened = None;
template <typename F>
LAMINA_SIMD None open(const std::byte*) {
  return {};
}
template <typename F>
LAMINA_SIMD void read_step(None, const std::byte* p, int step, Codes& codes, Float& scales,
                           Float& minima) {
  F::plain(p, step, &codes);
  scales = load(codes.scales);
  if constexpr (F::kHasMinimum) minima = load(codes.minima);
}
#endif

}  // namespace
}  // namespace lamina::cpu
