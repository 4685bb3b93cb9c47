// The interface of formats whose values are integers times scales and are read 64 at a time, and
// reads that several formats need. Internal to each file that includes it.
//
//   struct F { kValues, kBytes;   // of a block
//              kOffset;           // code - kOffset is the integer; codes are unsigned bytes
//              kMaxCode;          // the largest code; the offset is 128 if it exceeds 127
//              kHasMinimum;       // value = scale * integer + minimum
//              kScaleValues;      // that share a scale: 16, or 32 and more
//              X;                 // the form of x for few rows: QuantisedStep, or see below
//              open(blocks), codes(blocks, step), scales(...), minima(...); };
//
// A step is 64 values, of two blocks if they have 32. A scale belongs to a lane of 4 values: see
// QuantisedStep. A form that costs less to read than two or four steps has more functions:
//
//   QuantisedHalves: halves(blocks, codes[2]), scales_of_four(blocks), minima_of_four(blocks)
//   QuantisedParts: part_codes(block, pair, codes[2]), scales and minima of open(block): eight
#pragma once

#include "backends/cpu/stored/quantised_rows.h"
#include "backends/cpu/stored/widen_values_simd.h"

namespace lamina::cpu {
namespace {

constexpr int kStepValues = QuantisedStep::kValues;

using Codes = Vec<std::uint8_t, kStepValues>;
using Eight = Vec<float, 8>;

struct None {};

// ---- Bytes --------------------------------------------------------------------------------------

LAMINA_SIMD Codes load_codes(const std::byte* p) { return load_bits<Codes>(p); }

// Bytes shifted as words of 16 bits: bits that cross bytes are for the caller to clear.
template <int N>
LAMINA_SIMD Vec<std::uint8_t, N> words_right(Vec<std::uint8_t, N> x, int bits) {
  using Wide = Vec<std::uint16_t, N / 2>;
  return bits_as<Vec<std::uint8_t, N>>(shift_right(bits_as<Wide>(x), bits));
}
template <int N>
LAMINA_SIMD Vec<std::uint8_t, N> words_left(Vec<std::uint8_t, N> x, int bits) {
  using Wide = Vec<std::uint16_t, N / 2>;
  return bits_as<Vec<std::uint8_t, N>>(shift_left(bits_as<Wide>(x), bits));
}
LAMINA_SIMD Codes high_nibbles(Codes x) { return low_nibbles(words_right(x, 4)); }

#if defined(__AVX512F__)
LAMINA_SIMD __m512i raw(Codes x) { return reinterpret_cast<__m512i>(x.raw); }
LAMINA_SIMD __m256i raw(Bytes32 x) { return reinterpret_cast<__m256i>(x.raw); }
LAMINA_SIMD Codes as_codes(__m512i x) { return {reinterpret_cast<Codes::Raw>(x)}; }
LAMINA_SIMD Codes both(Bytes32 a, Bytes32 b) {
  return as_codes(_mm512_inserti64x4(_mm512_castsi256_si512(raw(a)), raw(b), 1));
}
LAMINA_SIMD Codes twice(Bytes32 x) { return as_codes(_mm512_broadcast_i64x4(raw(x))); }
LAMINA_SIMD __m512i words_of_two(int a, int b) {
  return raw(both({reinterpret_cast<Bytes32::Raw>(_mm256_set1_epi16(static_cast<short>(a)))},
                  {reinterpret_cast<Bytes32::Raw>(_mm256_set1_epi16(static_cast<short>(b)))}));
}
// The same 32 bytes, shifted by a and by b bits as words_right() and words_left() do.
LAMINA_SIMD Codes twice_right(Bytes32 x, int a, int b) {
  return as_codes(_mm512_srlv_epi16(raw(twice(x)), words_of_two(a, b)));
}
LAMINA_SIMD Codes twice_left(Bytes32 x, int a, int b) {
  return as_codes(_mm512_sllv_epi16(raw(twice(x)), words_of_two(a, b)));
}
#else
LAMINA_SIMD Codes both(Bytes32 a, Bytes32 b) { return {a, b}; }
LAMINA_SIMD Codes twice_right(Bytes32 x, int a, int b) {
  return {words_right(x, a), words_right(x, b)};
}
LAMINA_SIMD Codes twice_left(Bytes32 x, int a, int b) {
  return {words_left(x, a), words_left(x, b)};
}
#endif

// The low nibbles of 32 bytes, then the high ones.
LAMINA_SIMD Codes low_then_high(Bytes32 x) { return low_nibbles(both(x, words_right(x, 4))); }

// The nibbles of two blocks of 16 bytes: the low ones of the first, its high ones, and so on.
LAMINA_SIMD Codes nibbles_of_pair(const std::byte* first, const std::byte* second) {
#if defined(__AVX512F__)
  const auto load_128 = [](const std::byte* p) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  };
  const __m512i pairs = _mm512_mask_broadcast_i32x4(_mm512_broadcast_i32x4(load_128(first)), 0xff00,
                                                    load_128(second));
  return low_nibbles(as_codes(_mm512_srlv_epi64(pairs, _mm512_setr_epi64(0, 0, 4, 4, 0, 0, 4, 4))));
#elif defined(__AVX2__)
  const auto one = [](const std::byte* p) -> Bytes32 {
    const __m256i pairs =
        _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    return {
        reinterpret_cast<Bytes32::Raw>(_mm256_srlv_epi64(pairs, _mm256_setr_epi64x(0, 0, 4, 4)))};
  };
  return low_nibbles(both(one(first), one(second)));
#else
  const auto one = [](const std::byte* p) -> Bytes32 {
    const Bytes pairs = load_bytes(p);
    return {pairs, words_right(pairs, 4)};
  };
  return low_nibbles(both(one(first), one(second)));
#endif
}

// The nibbles of 16 bytes each in four blocks: all low ones, all high ones.
template <int kBlockBytes>
LAMINA_SIMD void nibbles_of_four(const std::byte* p, Codes (&codes)[2]) {
  const auto two = [&](int block) {
    const std::byte* at = p + block * kBlockBytes;
    return both_halves(load_bytes(at), load_bytes(at + kBlockBytes));
  };
  const Codes pairs = both(two(0), two(2));
  codes[0] = low_nibbles(pairs);
  codes[1] = high_nibbles(pairs);
}

// The entries of a table of 16 bytes.
LAMINA_SIMD Codes from_table(const std::uint8_t* table, Codes nibbles) {
#if defined(__AVX512F__)
  const auto* bytes = reinterpret_cast<const __m128i*>(table);
  return as_codes(
      _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128(bytes)), raw(nibbles)));
#elif defined(__AVX2__)
  const __m256i entries =
      _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
  const auto look_up = [&](Bytes32 x) -> Bytes32 {
    return {reinterpret_cast<Bytes32::Raw>(
        _mm256_shuffle_epi8(entries, reinterpret_cast<__m256i>(x.raw)))};
  };
  return {look_up(nibbles.lo), look_up(nibbles.hi)};
#else
  std::uint8_t bytes[kStepValues];
  store_raw(bytes, nibbles);
  for (std::uint8_t& byte : bytes) byte = table[byte];
  return load_raw<Codes>(bytes);
#endif
}

// Adds 16 to codes of the first (second) half whose bit in `first` (`second`) is set.
LAMINA_SIMD Codes with_fifth_bits(Codes codes, std::uint32_t first, std::uint32_t second) {
#if defined(__AVX512F__)
  return as_codes(_mm512_mask_add_epi8(raw(codes), first | std::uint64_t{second} << 32, raw(codes),
                                       _mm512_set1_epi8(16)));
#else
  const auto sixteens_of = [](std::uint32_t bits) -> Bytes32 {
#if defined(__AVX2__)
    const __m256i bytes =
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i of_lane = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201));
    const __m256i spread =
        _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<std::int32_t>(bits)), bytes);
    const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(spread, of_lane), of_lane);
    return {reinterpret_cast<Bytes32::Raw>(_mm256_and_si256(set, _mm256_set1_epi8(16)))};
#else
    std::uint8_t lanes[32];
    for (int i = 0; i < 32; ++i) lanes[i] = static_cast<std::uint8_t>((bits >> i & 1) << 4);
    return load_raw<Bytes32>(lanes);
#endif
  };
  return codes | both(sixteens_of(first), sixteens_of(second));
#endif
}

// Adds 1 << kShift to codes of the first half where bit `a` of 32 bytes is set, and to codes of the
// second half where bit `b` is.
template <int kShift>
LAMINA_SIMD Codes with_bit_of(Codes codes, Bytes32 bytes, int a, int b) {
#if defined(__AVX512F__)
  const auto bit = [](int i) { return splat<Bytes32>(static_cast<std::uint8_t>(1 << i)); };
  const __mmask64 set = _mm512_test_epi8_mask(raw(twice(bytes)), raw(both(bit(a), bit(b))));
  return as_codes(_mm512_mask_add_epi8(raw(codes), set, raw(codes), _mm512_set1_epi8(1 << kShift)));
#else
  return codes | words_left(twice_right(bytes, a, b) & splat<Codes>(1), kShift);
#endif
}

// ---- Scales -------------------------------------------------------------------------------------

// Numbers a and b, in eight lanes each.
LAMINA_SIMD Float in_eight_lanes_each(float a, float b) {
#if defined(__AVX512F__)
  return {_mm512_mask_broadcastss_ps(_mm512_set1_ps(a), 0xff00, _mm_set_ss(b))};
#else
  return join(splat<Eight>(a), splat<Eight>(b));
#endif
}

// Eight numbers, then zeros.
LAMINA_SIMD Float with_zeros(Eight x) {
#if defined(__AVX512F__)
  return {_mm512_zextps256_ps512(x.raw)};
#else
  return join(x, splat<Eight>(0));
#endif
}

// Four numbers, in four lanes each.
#if defined(__AVX2__)
LAMINA_SIMD Float in_four_lanes_each(__m128 x) {
#if defined(__AVX512F__)
  const __m512i lanes = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
  return {_mm512_permutexvar_ps(lanes, _mm512_castps128_ps512(x))};
#else
  const __m256 twice = _mm256_set_m128(x, x);
  return {{_mm256_permutevar_ps(twice, _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1))},
          {_mm256_permutevar_ps(twice, _mm256_setr_epi32(2, 2, 2, 2, 3, 3, 3, 3))}};
#endif
}
#endif
LAMINA_SIMD Float in_four_lanes_each(float a, float b, float c, float d) {
#if defined(__AVX2__)
  return in_four_lanes_each(_mm_setr_ps(a, b, c, d));
#else
  using Four = Vec<float, 4>;
  return join(join(splat<Four>(a), splat<Four>(b)), join(splat<Four>(c), splat<Four>(d)));
#endif
}

// 16 or eight numbers; a step reads a few.
struct Numbers {
#if defined(__AVX512F__)
  __m512 all;
  LAMINA_SIMD static Numbers of(Float x) { return {x.raw}; }
  LAMINA_SIMD static Numbers of(Eight x) { return {_mm512_castps256_ps512(x.raw)}; }
  // Numbers a and b, in eight lanes each.
  LAMINA_SIMD Float two(int a, int b) const {
    return {_mm512_permutexvar_ps(_mm512_setr_epi32(a, a, a, a, a, a, a, a, b, b, b, b, b, b, b, b),
                                  all)};
  }
  // Numbers first to first + 3, in four lanes each.
  LAMINA_SIMD Float four(int first) const {
    const __m512i lanes = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    return {_mm512_permutexvar_ps(_mm512_add_epi32(_mm512_set1_epi32(first), lanes), all)};
  }
#else
  // In memory: reads of one number to all lanes cost no shuffle.
  alignas(64) float all[kLanes];
  LAMINA_SIMD static Numbers of(Float x) {
    Numbers out;
    store_raw(out.all, x);
    return out;
  }
  LAMINA_SIMD static Numbers of(Eight x) {
    Numbers out;
    store_raw(out.all, x);
    return out;
  }
  LAMINA_SIMD Float two(int a, int b) const { return in_eight_lanes_each(all[a], all[b]); }
  LAMINA_SIMD Float four(int first) const {
#if defined(__AVX2__)
    return in_four_lanes_each(_mm_loadu_ps(all + first));
#else
    return in_four_lanes_each(all[first], all[first + 1], all[first + 2], all[first + 3]);
#endif
  }
#endif
};

struct ScalesAndMinima {
  Numbers scales, minima;
};

// Four signed bytes as numbers, in four lanes each.
LAMINA_SIMD Float four_signed_bytes(const std::byte* p) {
#if defined(__AVX2__)
  std::int32_t four;
  __builtin_memcpy(&four, p, sizeof four);
  return in_four_lanes_each(_mm_cvtepi32_ps(_mm_cvtepi8_epi32(_mm_cvtsi32_si128(four))));
#else
  const auto number = [&](int i) { return static_cast<float>(std::to_integer<std::int8_t>(p[i])); };
  return in_four_lanes_each(number(0), number(1), number(2), number(3));
#endif
}

// Eight bytes as numbers.
LAMINA_SIMD Eight eight_bytes(std::uint64_t bytes) {
#if defined(__AVX2__)
  return {
      _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_cvtsi64_si128(static_cast<long long>(bytes))))};
#else
  float out[8];
  for (int i = 0; i < 8; ++i) out[i] = static_cast<float>(bytes >> 8 * i & 255);
  return load_raw<Eight>(out);
#endif
}

#if defined(__AVX2__) && !defined(__AVX512F__)
// Words `first` of four blocks.
template <int kBlockBytes>
LAMINA_SIMD __m128i words_of_four(const std::byte* p, int first) {
  const auto word = [&](int block) {
    std::uint16_t bits;
    __builtin_memcpy(&bits, p + 2 * first + block * kBlockBytes, sizeof bits);
    return bits;
  };
  const __m128i two = _mm_insert_epi16(_mm_cvtsi32_si128(word(0)), word(1), 1);
  return _mm_insert_epi16(_mm_insert_epi16(two, word(2), 2), word(3), 3);
}
#endif

// A number of each of four blocks, in four lanes each: words `first` of the blocks, which must be
// among the first 32.
template <int kBlockBytes>
LAMINA_SIMD Float f16_of_four(const std::byte* p, int first) {
#if defined(__AVX512F__)
  const auto word = [&](int lane) {
    return static_cast<short>(first + lane / 4 * kBlockBytes / 2);
  };
  const __m512i words = _mm512_zextsi256_si512(_mm256_setr_epi16(
      word(0), word(1), word(2), word(3), word(4), word(5), word(6), word(7), word(8), word(9),
      word(10), word(11), word(12), word(13), word(14), word(15)));
  return {_mm512_cvtph_ps(
      _mm512_castsi512_si256(_mm512_permutexvar_epi16(words, _mm512_loadu_si512(p))))};
#elif defined(__AVX2__)
  return in_four_lanes_each(_mm_cvtph_ps(words_of_four<kBlockBytes>(p, first)));
#else
  const auto number = [&](int block) { return f16_at(p + 2 * first + block * kBlockBytes); };
  return in_four_lanes_each(number(0), number(1), number(2), number(3));
#endif
}
template <int kBlockBytes>
LAMINA_SIMD Float bf16_of_four(const std::byte* p, int first) {
#if defined(__AVX512F__)
  const auto word = [&](int block) { return (first + block * kBlockBytes / 2) << 16; };
  const int a = word(0), b = word(1), c = word(2), d = word(3);
  const __m512i words = _mm512_setr_epi32(a, a, a, a, b, b, b, b, c, c, c, c, d, d, d, d);
  return {reinterpret_cast<Float::Raw>(
      _mm512_maskz_permutexvar_epi16(0xaaaaaaaa, words, _mm512_loadu_si512(p)))};
#elif defined(__AVX2__)
  const __m128i words = words_of_four<kBlockBytes>(p, first);
  return in_four_lanes_each(_mm_castsi128_ps(_mm_unpacklo_epi16(_mm_setzero_si128(), words)));
#else
  const auto number = [&](int block) { return bf16_at(p + 2 * first + block * kBlockBytes); };
  return in_four_lanes_each(number(0), number(1), number(2), number(3));
#endif
}
// Two f16 numbers, at words `first` and `first` + `second`, each in eight lanes.
template <int second>
LAMINA_SIMD Float f16_pair(const std::byte* p, int first = 0) {
#if defined(__AVX512F__)
  const auto a = static_cast<short>(first), b = static_cast<short>(first + second);
  const __m256i lanes = _mm256_setr_epi16(a, a, a, a, a, a, a, a, b, b, b, b, b, b, b, b);
  if constexpr (second >= 15)
    return {_mm512_cvtph_ps(_mm512_castsi512_si256(
        _mm512_permutexvar_epi16(_mm512_zextsi256_si512(lanes), _mm512_loadu_si512(p))))};
  else
    return {_mm512_cvtph_ps(_mm256_permutexvar_epi16(lanes, raw(load_bytes32(p))))};
#else
  return in_eight_lanes_each(f16_at(p + 2 * first), f16_at(p + 2 * (first + second)));
#endif
}
// Likewise in bf16: the words become the upper halves of lanes.
template <int second>
LAMINA_SIMD Float bf16_pair(const std::byte* p, int first) {
#if defined(__AVX512F__)
  const int a = first << 16, b = (first + second) << 16;
  const __m512i words = _mm512_setr_epi32(a, a, a, a, a, a, a, a, b, b, b, b, b, b, b, b);
  const __m512i from =
      second >= 15 ? _mm512_loadu_si512(p) : _mm512_castsi256_si512(raw(load_bytes32(p)));
  return {reinterpret_cast<Float::Raw>(_mm512_maskz_permutexvar_epi16(0xaaaaaaaa, words, from))};
#else
  return in_eight_lanes_each(bf16_at(p + 2 * first), bf16_at(p + 2 * (first + second)));
#endif
}

}  // namespace
}  // namespace lamina::cpu
