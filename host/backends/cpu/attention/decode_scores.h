// The first sum of a decoding step: dot products of queries with keys. Internal to each file that
// includes it.
#pragma once

#include "backends/cpu/attention/cached_rows.h"
#include "backends/cpu/attention/decode_step.h"
#include "backends/cpu/attention/tiles.h"

namespace lamina::cpu {
namespace {

// T: float, or uint16_t for bf16. S: T, or the numbers of rows of formats/row_formats.h, without
// pairs.
template <class V, class T, bool kPairs, class S = T>
struct DecodeScores {
  using F = typename V::F;
  using Step = DecodeStep<S>;
  static constexpr int L = V::kLanes;
  static constexpr std::int64_t kElements = kPairs ? 2 * L : L;  // of a vector of words
  static constexpr bool kInBlocks = false;

  // Loads the vector of words at p; only its first `left` elements exist.
  template <bool kWhole = false>
  requires kIsNumber<S> LAMINA_SIMD static F load(const S* p, std::int64_t left = kElements) {
    if (!kWhole && left < kElements) {
      S rest[L] = {};
      std::memcpy(rest, p, static_cast<std::size_t>(left));
      return load_numbers<V>(rest);
    }
    return load_numbers<V>(p);
  }
  template <bool kWhole = false>
  LAMINA_SIMD static F load(const T* p, std::int64_t left = kElements) {
    if (!kWhole && left < kElements) {
      Word words[L] = {};
      Operands<V, T, kPairs>::copy_row(p, left, words);
      return V::load(words);
    }
    if constexpr (kPairs || sizeof(T) == 4)
      return V::load(p);
    else
      return V::load_bf16(p);
  }

  LAMINA_SIMD static F multiply_add(F a, F b, F c) {
#if defined(__AVX512BF16__)
    if constexpr (kPairs)
      return dot_pairs(c, a, b);
    else
#endif
      return V::multiply_add(a, b, c);
  }

  // ---- queries ----

  static constexpr std::int64_t query_words(std::int64_t vectors) { return vectors * L; }
  static void store_query(const T* q, std::int64_t dim, Word* to) {
    for (std::int64_t at = 0; at < dim; at += kElements, to += L)
      V::store(to, load(q + at, dim - at));
  }

  // ---- scores ----

  // Computes the logits of all slots for the rows of one head.
  static void score(const Step& x, std::int64_t head, Ahead& next) {
    for (std::int64_t column = 0; column < x.count; column += L) {
      if (x.rows > kFoldedRows)
        score_transposed(x, head, column, next);
      else
        score_folded(x, head, column, next);
    }
  }

  // Computes dot products one at a time; the lanes of L of them are summed together.
  static void score_folded(const Step& x, std::int64_t head, std::int64_t column, Ahead& next) {
    const std::int64_t count = min(L, x.count - column);
    const S* k = x.k + head * x.k_head + column * x.k_token;
    const Word* q = x.q + head * x.rows * x.qk_vectors * L;
    if (x.rows == 1 && x.qk_dim == 4 * kElements)
      dot_keys<1, 4>(x, k, count, q, next);
    else if (x.rows == 2 && x.qk_dim == 4 * kElements)
      dot_keys<2, 4>(x, k, count, q, next);
    else if (x.rows == 1 && x.qk_dim == 2 * kElements)
      dot_keys<1, 2>(x, k, count, q, next);
    else if (x.rows == 2 && x.qk_dim == 2 * kElements)
      dot_keys<2, 2>(x, k, count, q, next);
    else if (kIsNumber<S> && L == 16 && x.rows == 1 && x.qk_dim == 8 * kElements)
      dot_keys<1, 8>(x, k, count, q, next);
    else if (kIsNumber<S> && L == 16 && x.rows == 2 && x.qk_dim == 8 * kElements)
      dot_keys<2, 8>(x, k, count, q, next);
    else
      dot_keys_of_any_width(x, k, count, q, next);
    for (std::int64_t i = count * x.rows; i < L * x.rows; ++i) V::store(x.dots + i * L, F{});
    for (std::int64_t row = 0; row < x.rows; ++row) {
      next.ask(x.lines / (4 * x.rows * (kDecodeKeys / L)));
      F lanes[L];
#pragma GCC unroll 16
      for (int j = 0; j < L; ++j) lanes[j] = V::load(x.dots + (j * x.rows + row) * L);
      V::store(x.scores + (head * x.rows + row) * kDecodeKeys + column, V::template fold<L>(lanes));
    }
  }

  // The common widths of N vectors of words, with the queries in registers.
  template <int R, int N>
  static void dot_keys(const Step& x, const S* k, std::int64_t count, const Word* q, Ahead& next) {
    F queries[R][N];
#pragma GCC unroll 2
    for (int row = 0; row < R; ++row)
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) queries[row][n] = V::load(q + (row * N + n) * L);
    float* dots = x.dots;
    const std::int64_t lines = x.lines / (4 * kDecodeKeys);
    for (std::int64_t j = 0; j < count; ++j, k += x.k_token) {
      next.ask(lines);
      F sum[R] = {};
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) {
        const F key = load<true>(k + n * kElements);
#pragma GCC unroll 2
        for (int row = 0; row < R; ++row) sum[row] = multiply_add(queries[row][n], key, sum[row]);
      }
#pragma GCC unroll 2
      for (int row = 0; row < R; ++row, dots += L) V::store(dots, sum[row]);
    }
  }

  static void dot_keys_of_any_width(const Step& x, const S* k, std::int64_t count, const Word* q,
                                    Ahead& next) {
    float* dots = x.dots;
    for (std::int64_t j = 0; j < count; ++j, k += x.k_token) {
      next.ask(x.lines / (4 * kDecodeKeys));
      for (std::int64_t row = 0; row < x.rows; ++row, dots += L) {
        F sum = F{};
        for (std::int64_t n = 0; n < x.qk_vectors; ++n)
          sum = multiply_add(V::load(q + (row * x.qk_vectors + n) * L),
                             load(k + n * kElements, x.qk_dim - n * kElements), sum);
        V::store(dots, sum);
      }
    }
  }

  // Transposes the keys' words in registers, so that lanes are slots and no sums need folding. The
  // cost of transposing does not depend on the number of rows.
  static void score_transposed(const Step& x, std::int64_t head, std::int64_t column, Ahead& next) {
    const std::int64_t count = min(L, x.count - column);
    for (std::int64_t n = 0; n < x.qk_vectors; ++n) {
      const std::int64_t left = x.qk_dim - n * kElements;
      const S* k = x.k + head * x.k_head + column * x.k_token + n * kElements;
      next.ask(x.lines / (2 * x.qk_vectors * (kDecodeKeys / L)));
      F words[L];
      if (count == L && left >= kElements) {
#pragma GCC unroll 16
        for (int j = 0; j < L; ++j) words[j] = load<true>(k + j * x.k_token);
      } else {
        for (int j = 0; j < L; ++j) words[j] = j < count ? load(k + j * x.k_token, left) : F{};
      }
      V::transpose(words);
      for (std::int64_t row = 0; row < x.rows;) {
        const std::int64_t rows = x.rows - row, i = head * x.rows + row;
        const Word* q = x.q + (i * x.qk_vectors + n) * L;
        float* scores = x.scores + i * kDecodeKeys + column;
        row += rows >= 8   ? sum_scores<8>(x, q, n == 0, words, scores)
               : rows >= 4 ? sum_scores<4>(x, q, n == 0, words, scores)
               : rows >= 2 ? sum_scores<2>(x, q, n == 0, words, scores)
                           : sum_scores<1>(x, q, n == 0, words, scores);
      }
    }
  }

  template <int R>
  LAMINA_SIMD static std::int64_t sum_scores(const Step& x, const Word* q, bool first,
                                             const F (&words)[L], float* scores) {
    F sum[R];
#pragma GCC unroll 8
    for (int row = 0; row < R; ++row) sum[row] = first ? F{} : V::load(scores + row * kDecodeKeys);
#pragma GCC unroll 16
    for (int w = 0; w < L; ++w)
#pragma GCC unroll 8
      for (int row = 0; row < R; ++row)
        sum[row] = multiply_add(V::broadcast(q + row * x.qk_vectors * L + w), words[w], sum[row]);
#pragma GCC unroll 8
    for (int row = 0; row < R; ++row) V::store(scores + row * kDecodeKeys, sum[row]);
    return R;
  }
};

}  // namespace
}  // namespace lamina::cpu
