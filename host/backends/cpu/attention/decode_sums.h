// The two sums of a decoding step: dot products of queries with keys, weighted sums of values.
//
// The heads are computed in turn, each with its sums in registers; with every slot, a head
// prefetches a little memory of the next step. Walking the slots in memory order through all heads,
// so that the hardware prefetches, was measured to be slower: it does not run far enough ahead of
// so much arithmetic. Internal to each file that includes it.
#pragma once

#include "backends/cpu/attention/decode_scores.h"

namespace lamina::cpu {
namespace {

// T and S: as for DecodeScores.
template <class V, class T, bool kPairs, class S = T>
struct DecodeSums : DecodeScores<V, T, kPairs, S> {
  using Scores = DecodeScores<V, T, kPairs, S>;
  using Scores::kElements;
  using Scores::L;
  using Scores::multiply_add;
  using typename Scores::F;
  using typename Scores::Step;

  // ---- weights ----

  // Stores the weights of the slots of a step.
  LAMINA_SIMD static void store_weights(const F (&p)[kDecodeKeys / L], Word* to) {
    for (const F& of_slots : p) {
#if defined(__AVX512BF16__)
      if constexpr (kPairs) {
        store_neighbours(to, of_slots);
        to += L / 2;
        continue;
      }
#endif
      V::store(to, of_slots);
      to += L;
    }
  }

  // ---- scales ----

  // Reads the scales of a head's keys and values in the step, 0 after its last slot.
  static void read_scales(const Step& x, std::int64_t head, float* keys,
                          float* values) requires kIsNumber<S> {
    const S* k = x.k + head * x.k_head;
    const S* v = x.v + head * x.v_head;
    for (std::int64_t j = 0; j < kDecodeKeys; ++j) {
      keys[j] = j < x.count ? row_scale(k + j * x.k_token) : 0;
      values[j] = j < x.count ? row_scale(v + j * x.v_token) : 0;
    }
  }

  // ---- values ----

  // Adds the weighted values of all slots to the rows of one head.
  static void add_values(const Step& x, std::int64_t head, Ahead& next) {
    for (std::int64_t row = 0; row < x.rows;) {
      const std::int64_t left = x.rows - row;
      row += left >= 8   ? add_rows<8>(x, head, row, next)
             : left >= 4 ? add_rows<4>(x, head, row, next)
             : left >= 2 ? add_rows<2>(x, head, row, next)
                         : add_rows<1>(x, head, row, next);
    }
  }

  // Turns words of the dims of two slots into pairs of the slots: the lower dims in `low`, the
  // upper ones in `high`.
  LAMINA_SIMD static void unpack([[maybe_unused]] F& low, [[maybe_unused]] F& high) {
#if defined(__AVX512BF16__)
    if constexpr (kPairs) {
      const __m512i even = _mm512_castps_si512(low), odd = _mm512_castps_si512(high);
      low = _mm512_castsi512_ps(_mm512_unpacklo_epi16(even, odd));
      high = _mm512_castsi512_ps(_mm512_unpackhi_epi16(even, odd));
    }
#endif
  }

  // Restores the order of the dims in the sums of a row, which unpack() leaves in fours of low and
  // high.
  static void order_sums([[maybe_unused]] float* o, [[maybe_unused]] std::int64_t vectors) {
#if defined(__AVX512BF16__)
    if constexpr (kPairs) {
      const __m512i front =
          _mm512_set_epi32(23, 22, 21, 20, 7, 6, 5, 4, 19, 18, 17, 16, 3, 2, 1, 0);
      const __m512i back =
          _mm512_set_epi32(31, 30, 29, 28, 15, 14, 13, 12, 27, 26, 25, 24, 11, 10, 9, 8);
      for (std::int64_t n = 0; n < vectors; ++n, o += kElements) {
        const F low = V::load(o), high = V::load(o + L);
        V::store(o, _mm512_permutex2var_ps(low, front, high));
        V::store(o + L, _mm512_permutex2var_ps(low, back, high));
      }
    }
#endif
  }

  // Adds to R rows from `first` on; returns R. With few rows several vectors of words are added at
  // once, so that the sums do not wait for each other.
  template <int R>
  static std::int64_t add_rows(const Step& x, std::int64_t head, std::int64_t first, Ahead& next) {
    constexpr int kMax = R <= 2 ? 4 : R <= 4 ? 2 : 1;
    for (std::int64_t n = 0; n < x.v_vectors;) {
      const std::int64_t left = x.v_dim - n * kElements;
      if (left >= kMax * kElements)
        n += add_vectors<R, kMax, true>(x, head, first, n, next);
      else if (left >= kElements)
        n += add_vectors<R, 1, true>(x, head, first, n, next);
      else
        n += add_vectors<R, 1, false>(x, head, first, n, next);
    }
    return R;
  }

  // Adds N vectors of words from the n-th on, for R rows; returns N.
  template <int R, int N, bool kWhole>
  static std::int64_t add_vectors(const Step& x, std::int64_t head, std::int64_t first,
                                  std::int64_t n, Ahead& next) {
    constexpr int kSums = kPairs ? 2 * N : N;
    constexpr std::int64_t kSlots = kPairs ? 2 : 1;
    const std::int64_t i = head * x.rows + first, left = x.v_dim - n * kElements;
    const S* value = x.v + head * x.v_head + n * kElements;
    const Word* weights = x.weights + i * kDecodeKeys;
    float* o = x.o + (i * x.v_vectors + n) * kElements;
    const std::int64_t lines = divide_up(3 * x.lines * N * kSlots, 8 * kDecodeKeys * x.v_vectors);
    F sum[R][kSums];
#pragma GCC unroll 8
    for (int row = 0; row < R; ++row)
#pragma GCC unroll 8
      for (int part = 0; part < kSums; ++part)
        sum[row][part] = V::load(o + row * x.v_vectors * kElements + part * L);
    for (std::int64_t j = 0; j < x.count; j += kSlots, value += kSlots * x.v_token, ++weights) {
      next.ask(lines);
      // A last slot without a partner is paired with itself; the partner's weight is 0.
      [[maybe_unused]] const S* partner = j + 1 < x.count ? value + x.v_token : value;
#pragma GCC unroll 4
      for (int v = 0; v < N; ++v) {
        F low = Scores::template load<kWhole>(value + v * kElements, left), high = low;
        if constexpr (kPairs) {
          high = Scores::template load<kWhole>(partner + v * kElements, left);
          unpack(low, high);
        }
#pragma GCC unroll 8
        for (int row = 0; row < R; ++row) {
          const F weight = V::broadcast(weights + row * kDecodeKeys);
          if constexpr (kPairs) {
            sum[row][2 * v] = multiply_add(weight, low, sum[row][2 * v]);
            sum[row][2 * v + 1] = multiply_add(weight, high, sum[row][2 * v + 1]);
          } else {
            sum[row][v] = multiply_add(weight, low, sum[row][v]);
          }
        }
      }
    }
#pragma GCC unroll 8
    for (int row = 0; row < R; ++row)
#pragma GCC unroll 8
      for (int part = 0; part < kSums; ++part)
        V::store(o + row * x.v_vectors * kElements + part * L, sum[row][part]);
    return N;
  }
};

}  // namespace
}  // namespace lamina::cpu
