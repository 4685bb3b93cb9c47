// The interface of formats whose values are integers times scales and are read 64 at a time, and
// reads that several formats need. Internal to each file that includes it.
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
