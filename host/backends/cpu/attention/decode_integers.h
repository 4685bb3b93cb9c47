// The two sums of a decoding step over rows of int8, by products of integers: DecodeSums for bf16
// queries on machines with vpdpbusd.
//
// A query is rounded to integers of 16 bits times a power of two, which is exact for bf16 numbers
// that are at least 2^-6 of its largest one. The weights of the slots of a step are rounded to
// 65535ths of the largest. Both are kept as two bytes, so that two products of bytes have the exact
// integer sum. Sums of integers do not depend on their order. Internal to each file that includes
// it.
#pragma once

#include "backends/cpu/attention/decode_integer_scores.h"
#include "backends/cpu/attention/decode_sums.h"

namespace lamina::cpu {
namespace {

#if defined(__AVX512VNNI__)

template <class V>
struct IntegerDecodeSums : IntegerDecodeScores<V> {
  using Scores = IntegerDecodeScores<V>;
  using Scores::kElements;
  using Scores::L;
  using typename Scores::F;
  using typename Scores::Step;

  static void read_scales(const Step& x, std::int64_t head, float* keys, float* values) {
    DecodeSums<V, std::uint16_t, false, Int8>::read_scales(x, head, keys, values);
  }

  // ---- weights ----

  // The weights of a step: kDecodeKeys upper bytes, as many lower bytes, the factor.
  static void store_weights(const F (&p)[kDecodeKeys / L], Word* to) {
    const F max = V::max(p[0], p[1]), sum = p[0] + p[1];
    const bool is_finite = _mm512_cmp_ps_mask(sum - sum, F{}, _CMP_EQ_OQ) == 0xffff;
    const IntegerFactor factor = factor_of_weights<65535>(V::max_lane(max)[0], is_finite);
    auto* bytes = reinterpret_cast<std::uint8_t*>(to);
    for (int part = 0; part < kDecodeKeys / L; ++part) {
      const __m512i x = _mm512_min_epi32(_mm512_cvtps_epi32(p[part] * V::set(factor.inverse)),
                                         _mm512_set1_epi32(65535));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(bytes + part * L),
                       _mm512_cvtepi32_epi8(_mm512_srli_epi32(x, 8)));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(bytes + kDecodeKeys + part * L),
                       _mm512_cvtepi32_epi8(x));
    }
    std::memcpy(bytes + 2 * kDecodeKeys, &factor.factor, sizeof factor.factor);
  }

  // ---- values ----

  // Adds the weighted values of all slots to the rows of one head.
  static void add_values(const Step& x, std::int64_t head, Ahead& next) {
    for (std::int64_t row = 0; row < x.rows; row += row + 2 <= x.rows ? 2 : 1)
      for (std::int64_t n = 0; n < x.v_vectors; ++n) {
        const bool whole = x.v_dim - n * kElements >= kElements;
        if (row + 2 <= x.rows)
          whole ? add_rows<2, true>(x, head, row, n, next)
                : add_rows<2, false>(x, head, row, n, next);
        else
          whole ? add_rows<1, true>(x, head, row, n, next)
                : add_rows<1, false>(x, head, row, n, next);
      }
  }

  // Adds the n-th vectors of values to R rows from `first` on. A word of four slots is one lane.
  template <int R, bool kWhole>
  static void add_rows(const Step& x, std::int64_t head, std::int64_t first, std::int64_t n,
                       Ahead& next) {
    constexpr int kSlots = 4;
    const std::int64_t i = head * x.rows + first, left = x.v_dim - n * kElements;
    const Int8* value = x.v + head * x.v_head + n * kElements;
    const Word* weights = x.weights + i * kDecodeKeys;
    const std::int64_t pairs = divide_up(x.rows, 2);
    const std::int64_t lines =
        divide_up(3 * x.lines * kSlots, 8 * kDecodeKeys * x.v_vectors * pairs);
    __m512i high[R][4], low[R][4];
#pragma GCC unroll 2
    for (int row = 0; row < R; ++row)
#pragma GCC unroll 4
      for (int t = 0; t < 4; ++t) high[row][t] = low[row][t] = __m512i{};
    for (std::int64_t j = 0; j < x.count; j += kSlots, value += kSlots * x.v_token, ++weights) {
      next.ask(lines);
      __m512i v[4];
#pragma GCC unroll 4
      for (int slot = 0; slot < kSlots; ++slot) {
        // Slots after the last one have the weight 0.
        const Int8* at = value + (j + slot < x.count ? slot : 0) * x.v_token;
        v[slot] = kWhole ? _mm512_loadu_si512(at) : numbers(at, left);
      }
      join_slots(v);
#pragma GCC unroll 2
      for (int row = 0; row < R; ++row) {
        const __m512i upper = broadcast(weights + row * kDecodeKeys);
        const __m512i lower = broadcast(weights + row * kDecodeKeys + kDecodeKeys / 4);
#pragma GCC unroll 4
        for (int t = 0; t < 4; ++t) {
          high[row][t] = _mm512_dpbusd_epi32(high[row][t], upper, v[t]);
          low[row][t] = _mm512_dpbusd_epi32(low[row][t], lower, v[t]);
        }
      }
    }
#pragma GCC unroll 2
    for (int row = 0; row < R; ++row) {
      float* o = x.o + ((i + row) * x.v_vectors + n) * kElements;
      const F factor = V::broadcast(x.weights + (i + row) * kDecodeKeys + kDecodeKeys / 2);
#pragma GCC unroll 4
      for (int t = 0; t < 4; ++t)
        V::store(o + t * L,
                 V::multiply_add(joined(high[row][t], low[row][t]), factor, V::load(o + t * L)));
    }
  }

  // Turns vectors of four slots into words of the slots: lane 4 b + w of vector t is dim 16 b + 4 t
  // + w.
  LAMINA_SIMD static void join_slots(__m512i (&v)[4]) {
    const __m512i first_low = _mm512_unpacklo_epi8(v[0], v[1]);
    const __m512i first_high = _mm512_unpackhi_epi8(v[0], v[1]);
    const __m512i last_low = _mm512_unpacklo_epi8(v[2], v[3]);
    const __m512i last_high = _mm512_unpackhi_epi8(v[2], v[3]);
    v[0] = _mm512_unpacklo_epi16(first_low, last_low);
    v[1] = _mm512_unpackhi_epi16(first_low, last_low);
    v[2] = _mm512_unpacklo_epi16(first_high, last_high);
    v[3] = _mm512_unpackhi_epi16(first_high, last_high);
  }

  // Restores the order of the dims in the sums of a row, which join_slots() leaves in fours.
  static void order_sums(float* o, std::int64_t vectors) {
    for (std::int64_t n = 0; n < vectors; ++n, o += kElements) {
      float fours[kElements];
      std::memcpy(fours, o, sizeof fours);
      for (int t = 0; t < 4; ++t)
        for (int block = 0; block < 4; ++block)
          std::memcpy(o + 16 * block + 4 * t, fours + L * t + 4 * block, 4 * sizeof(float));
    }
  }

 private:
  using Scores::broadcast;
  using Scores::joined;
  using Scores::numbers;
};

#endif

}  // namespace
}  // namespace lamina::cpu
