// The interface of formats whose values are integers times scales and are read 64 at a time, and
// reads that several formats need. Internal to each file that includes it.
//
//   struct F { kValues, kBytes;   // of a block
//              kOffset;           // code - kOffset is the integer; codes are unsigned bytes
//              kHasMinimum;       // value = scale * integer + minimum
//              kScaleValues;      // that share a scale: 16, or 32 and more
//              X;                 // the form of x for few rows: QuantisedStep, or see below
//              plain(blocks, step, PlainStep* out);   // 64 values; blocks of 32: two of them
//              open(blocks), codes(blocks, step), scales(...), minima(...); };   // AVX-512
//
// A scale belongs to a lane of 4 values: see QuantisedStep. A form that costs less to read than two
// or four steps has more functions for AVX-512:
//
//   QuantisedHalves: halves(blocks, codes[2]), scales_of_four(blocks), minima_of_four(blocks)
//   QuantisedParts: part_codes(block, pair, codes[2]), scales and minima of open(block): eight
#pragma once

#include "backends/cpu/stored/block_numbers_simd.h"
#include "backends/cpu/stored/quantised_rows.h"

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

struct None {};

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
LAMINA_SIMD __m512i from_table(const std::uint8_t* table, __m512i nibbles) {
  const auto* bytes = reinterpret_cast<const __m128i*>(table);
  return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128(bytes)), nibbles);
}
// Numbers a and b, in eight lanes each.
LAMINA_SIMD __m512 numbers_of_two(__m512 numbers, int a, int b) {
  return _mm512_permutexvar_ps(_mm512_setr_epi32(a, a, a, a, a, a, a, a, b, b, b, b, b, b, b, b),
                               numbers);
}
// Numbers first to first + 3, in four lanes each.
LAMINA_SIMD __m512 numbers_of_four(__m512 numbers, int first) {
  const __m512i lanes = _mm512_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
  return _mm512_permutexvar_ps(_mm512_add_epi32(_mm512_set1_epi32(first), lanes), numbers);
}
// The nibbles of 16 bytes each in four blocks: all low ones, all high ones.
template <int kBlockBytes>
LAMINA_SIMD void nibbles_of_four(const std::byte* p, __m512i (&codes)[2]) {
  const auto two = [&](int block) {
    const std::byte* at = p + block * kBlockBytes;
    return _mm256_set_m128i(load_128(at + kBlockBytes), load_128(at));
  };
  const __m512i pairs = both(two(0), two(2));
  codes[0] = nibbles(pairs);
  codes[1] = nibbles(_mm512_srli_epi16(pairs, 4));
}
// A number of each of four blocks, in four lanes each: words `first` of the blocks, which must be
// among the first 32.
template <int kBlockBytes>
LAMINA_SIMD Float f16_of_four(const std::byte* p, int first) {
  const auto word = [&](int lane) {
    return static_cast<short>(first + lane / 4 * kBlockBytes / 2);
  };
  const __m512i words = _mm512_zextsi256_si512(_mm256_setr_epi16(
      word(0), word(1), word(2), word(3), word(4), word(5), word(6), word(7), word(8), word(9),
      word(10), word(11), word(12), word(13), word(14), word(15)));
  return {_mm512_cvtph_ps(_mm512_castsi512_si256(_mm512_permutexvar_epi16(words, load_512(p))))};
}
template <int kBlockBytes>
LAMINA_SIMD Float bf16_of_four(const std::byte* p, int first) {
  const auto word = [&](int block) { return (first + block * kBlockBytes / 2) << 16; };
  const int a = word(0), b = word(1), c = word(2), d = word(3);
  const __m512i words = _mm512_setr_epi32(a, a, a, a, b, b, b, b, c, c, c, c, d, d, d, d);
  return {
      reinterpret_cast<Float::Raw>(_mm512_maskz_permutexvar_epi16(0xaaaaaaaa, words, load_512(p)))};
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
#endif

}  // namespace
}  // namespace lamina::cpu
