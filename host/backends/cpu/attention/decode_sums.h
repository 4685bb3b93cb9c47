// The two sums of a decoding step: dot products of queries with keys, weighted sums of values.
//
// The heads are computed in turn, each with its sums in registers; with every slot, a head
// prefetches a little memory of the next step. Walking the slots in memory order through all heads,
// so that the hardware prefetches, was measured to be slower: it does not run far enough ahead of
// so much arithmetic. Internal to each file that includes it.
#pragma once

#include "backends/cpu/attention/cached_rows.h"
#include "backends/cpu/attention/tiles.h"

namespace lamina::cpu {
namespace {

constexpr std::int64_t kDecodeKeys = 32;  // slots of a step
constexpr std::int64_t kFoldedRows = 3;   // with more rows per head the keys are transposed

// One step: `count` <= kDecodeKeys slots of one batch row, all heads. The slots of the next step,
// if any, follow directly in the caches. S: the elements of the caches.
template <class S>
struct DecodeStep {
  const S *k, *v;                                 // slot 0 of head 0
  std::int64_t k_token, k_head, v_token, v_head;  // strides in elements
  std::int64_t heads, rows, count, qk_dim, v_dim, qk_vectors, v_vectors;
  std::int64_t lines;   // cache lines of one head in a step
  const Word* q;        // [heads, rows, query_words()]
  float* dots;          // [L, rows, L]
  float* scores;        // [heads * rows, kDecodeKeys]
  const Word* weights;  // [heads * rows, kDecodeKeys]: words along the slots
  float* o;             // [heads * rows, v_vectors, elements of a vector]
};

// Prefetches one head's part of the next step, a few lines at a time, spread evenly over the
// arithmetic of this step: half during the scores, an eighth during the softmax, the rest during
// the values. Requests in bursts would stall the core, and without requests memory would idle.
class Ahead {
 public:
  // `slots` rows of `bytes` each; one row with all of them if the heads are contiguous.
  struct Run {
    const char* at;
    std::int64_t rows, lines, stride_bytes;
  };
  Ahead(const Run& k, const Run& v) : run_(k), next_(v) { begin_row(); }

  LAMINA_SIMD void ask(std::int64_t lines) {
    for (; lines > 0; --lines) {
      __builtin_prefetch(line_, 0, 2);
      line_ += 64;
      if (line_ >= end_) begin_row();
    }
  }

 private:
  void begin_row() {
    if (run_.rows == 0) {
      run_ = next_;
      next_.rows = 0;
    }
    if (run_.rows == 0) run_ = {line_, 1, 1, 0};  // all requested: repeats the last line
    line_ = run_.at;
    end_ = line_ + run_.lines * 64;
    run_.at += run_.stride_bytes;
    --run_.rows;
  }
  Run run_, next_;
  const char *line_ = nullptr, *end_ = nullptr;
};

// T: float, or uint16_t for bf16. S: T, or the numbers of rows of formats/row_formats.h, without
// pairs.
template <class V, class T, bool kPairs, class S = T>
struct DecodeSums {
  using F = typename V::F;
  using Step = DecodeStep<S>;
  static constexpr int L = V::kLanes;
  static constexpr std::int64_t kElements = kPairs ? 2 * L : L;  // of a vector of words

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

  // ---- queries and weights ----

  static constexpr std::int64_t query_words(std::int64_t vectors) { return vectors * L; }
  static void store_query(const T* q, std::int64_t dim, Word* to) {
    for (std::int64_t at = 0; at < dim; at += kElements, to += L)
      V::store(to, load(q + at, dim - at));
  }

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
        F low = load<kWhole>(value + v * kElements, left), high = low;
        if constexpr (kPairs) {
          high = load<kWhole>(partner + v * kElements, left);
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
