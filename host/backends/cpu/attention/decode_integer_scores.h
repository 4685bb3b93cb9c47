// The first sum of a decoding step over rows of int8 by products of integers: see
// decode_integers.h. Internal to each file that includes it.
#pragma once

#include "backends/cpu/attention/cached_rows.h"
#include "backends/cpu/attention/decode_integer_factors.h"
#include "backends/cpu/attention/decode_step.h"

namespace lamina::cpu {
namespace {

#if defined(__AVX512VNNI__)

template <class V>
struct IntegerDecodeScores {
  using F = typename V::F;
  using Step = DecodeStep<Int8>;
  static constexpr int L = V::kLanes;
  static_assert(L == 16);
  static constexpr std::int64_t kElements = 64;  // of a vector of numbers
  static constexpr bool kInBlocks = false;

  // ---- queries ----

  // A query: vectors of upper bytes; of lower bytes; -128 times the sums of the upper bytes of each
  // lane; of the lower bytes; the factor.
  static constexpr std::int64_t query_words(std::int64_t vectors) { return (2 * vectors + 3) * L; }

  static void store_query(const std::uint16_t* q, std::int64_t dim, Word* to) {
    const std::int64_t vectors = divide_up(dim, kElements);
    const auto values = [&](std::int64_t i) { return load(q + i, dim - i); };
    F max{};
    bool is_finite = true;
    for (std::int64_t i = 0; i < dim; i += L) {
      const F x = _mm512_abs_ps(values(i));
      is_finite &= _mm512_cmp_ps_mask(x - x, F{}, _CMP_EQ_OQ) == 0xffff;
      max = V::max(max, x);
    }
    const IntegerFactor factor = factor_of_query(V::max_lane(max)[0], is_finite);
    __m512i upper_sums{}, lower_sums{};
    const __m512i offset = _mm512_set1_epi8(-128);  // 128 as an unsigned byte
    for (std::int64_t n = 0; n < vectors; ++n) {
      alignas(64) std::int8_t upper[kElements], lower[kElements];
      for (std::int64_t i = 0; i < kElements; i += L) {
        const std::int64_t at = n * kElements + i;
        const __m512i x =
            at < dim ? _mm512_cvtps_epi32(values(at) * V::set(factor.inverse)) : __m512i{};
        const __m512i low = _mm512_srai_epi32(_mm512_slli_epi32(x, 24), 24);
        const __m512i high = _mm512_srai_epi32(_mm512_sub_epi32(x, low), 8);
        _mm_store_si128(reinterpret_cast<__m128i*>(lower + i), _mm512_cvtepi32_epi8(low));
        _mm_store_si128(reinterpret_cast<__m128i*>(upper + i), _mm512_cvtepi32_epi8(high));
      }
      std::memcpy(to + n * L, upper, sizeof upper);
      std::memcpy(to + (vectors + n) * L, lower, sizeof lower);
      upper_sums = _mm512_dpbusd_epi32(upper_sums, offset, _mm512_load_si512(upper));
      lower_sums = _mm512_dpbusd_epi32(lower_sums, offset, _mm512_load_si512(lower));
    }
    _mm512_storeu_si512(to + 2 * vectors * L, _mm512_sub_epi32(__m512i{}, upper_sums));
    _mm512_storeu_si512(to + (2 * vectors + 1) * L, _mm512_sub_epi32(__m512i{}, lower_sums));
    V::store(to + (2 * vectors + 2) * L, V::set(factor.factor));
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
    const std::int64_t count = min(L, x.count - column), stride = query_words(x.qk_vectors);
    const Word* q = x.q + head * x.rows * stride;
    const Int8* k = x.k + head * x.k_head + column * x.k_token;
    const bool whole = x.qk_dim == 2 * kElements;
    if (whole && x.rows == 1)
      dot_keys<1, 2>(x, k, count, q, next);
    else if (whole && x.rows == 2)
      dot_keys<2, 2>(x, k, count, q, next);
    else
      for (std::int64_t row = 0; row < x.rows; ++row)
        dot_keys_of_any_width(x, k, count, q + row * stride, row, next);
    for (std::int64_t row = 0; row < x.rows; ++row) {
      F lanes[L];
#pragma GCC unroll 16
      for (int j = 0; j < L; ++j)
        lanes[j] = j < count ? V::load(x.dots + (j * x.rows + row) * L) : F{};
      V::store(x.scores + (head * x.rows + row) * kDecodeKeys + column,
               V::template fold<L>(lanes) * stored_factor(x, q + row * stride));
    }
  }

  template <int R, int N>
  static void dot_keys(const Step& x, const Int8* k, std::int64_t count, const Word* q,
                       Ahead& next) {
    __m512i upper[R][N], lower[R][N];
#pragma GCC unroll 2
    for (int row = 0; row < R; ++row)
#pragma GCC unroll 2
      for (int n = 0; n < N; ++n) {
        const Word* at = q + row * query_words(N) + n * L;
        upper[row][n] = _mm512_loadu_si512(at);
        lower[row][n] = _mm512_loadu_si512(at + N * L);
      }
    float* dots = x.dots;
    const std::int64_t lines = divide_up(x.lines, 2 * kDecodeKeys);
    for (std::int64_t j = 0; j < count; ++j, k += x.k_token) {
      next.ask(lines);
      __m512i key[N];
#pragma GCC unroll 2
      for (int n = 0; n < N; ++n) key[n] = codes(_mm512_loadu_si512(k + n * kElements));
#pragma GCC unroll 2
      for (int row = 0; row < R; ++row, dots += L) {
        const Word* sums = q + row * query_words(N) + 2 * N * L;
        __m512i high = _mm512_loadu_si512(sums), low = _mm512_loadu_si512(sums + L);
#pragma GCC unroll 2
        for (int n = 0; n < N; ++n) {
          high = _mm512_dpbusd_epi32(high, key[n], upper[row][n]);
          low = _mm512_dpbusd_epi32(low, key[n], lower[row][n]);
        }
        V::store(dots, joined(high, low));
      }
    }
  }

  static void dot_keys_of_any_width(const Step& x, const Int8* k, std::int64_t count, const Word* q,
                                    std::int64_t row, Ahead& next) {
    const Word* sums = q + 2 * x.qk_vectors * L;
    for (std::int64_t j = 0; j < count; ++j, k += x.k_token) {
      next.ask(divide_up(x.lines, 2 * kDecodeKeys * x.rows));
      __m512i high = _mm512_loadu_si512(sums), low = _mm512_loadu_si512(sums + L);
      for (std::int64_t n = 0; n < x.qk_vectors; ++n) {
        const __m512i key = codes(numbers(k + n * kElements, x.qk_dim - n * kElements));
        high = _mm512_dpbusd_epi32(high, key, _mm512_loadu_si512(q + n * L));
        low = _mm512_dpbusd_epi32(low, key, _mm512_loadu_si512(q + (x.qk_vectors + n) * L));
      }
      V::store(x.dots + (j * x.rows + row) * L, joined(high, low));
    }
  }

  // Transposes the words of L keys, so that lanes are slots and no sums need folding.
  static void score_transposed(const Step& x, std::int64_t head, std::int64_t column, Ahead& next) {
    const std::int64_t count = min(L, x.count - column), stride = query_words(x.qk_vectors);
    const Word* q = x.q + head * x.rows * stride;
    alignas(64) std::int32_t sums[kDecodeRows][2][L];
    for (std::int64_t n = 0; n < x.qk_vectors; ++n) {
      const Int8* k = x.k + head * x.k_head + column * x.k_token + n * kElements;
      F words[L];
      for (int j = 0; j < L; ++j) {
        next.ask(divide_up(x.lines, 2 * x.qk_vectors * kDecodeKeys));
        words[j] =
            j < count
                ? reinterpret_cast<F>(codes(numbers(k + j * x.k_token, x.qk_dim - n * kElements)))
                : F{};
      }
      V::transpose(words);
      for (std::int64_t row = 0; row < x.rows; row += row + 2 <= x.rows ? 2 : 1) {
        const Word* at = q + row * stride + n * L;
        if (row + 2 <= x.rows)
          sum_words<2>(at, x.qk_vectors, stride, n == 0, words, &sums[row]);
        else
          sum_words<1>(at, x.qk_vectors, stride, n == 0, words, &sums[row]);
      }
    }
    for (std::int64_t row = 0; row < x.rows; ++row) {
      // -128 times the sum of all bytes.
      const Word* of_query = q + row * stride + 2 * x.qk_vectors * L;
      const int high = _mm512_reduce_add_epi32(_mm512_loadu_si512(of_query));
      const int low = _mm512_reduce_add_epi32(_mm512_loadu_si512(of_query + L));
      const auto floats = [](const std::int32_t* from, int offset) {
        return _mm512_cvtepi32_ps(
            _mm512_add_epi32(_mm512_load_si512(from), _mm512_set1_epi32(offset)));
      };
      const F dots =
          V::multiply_add(floats(sums[row][0], high), V::set(256), floats(sums[row][1], low));
      V::store(x.scores + (head * x.rows + row) * kDecodeKeys + column,
               dots * stored_factor(x, q + row * stride));
    }
  }

  // Sets or adds to the sums of R rows the products of the n-th vectors, whose words are the rows
  // of `words`.
  template <int R>
  LAMINA_SIMD static void sum_words(const Word* q, std::int64_t vectors, std::int64_t stride,
                                    bool first, const F (&words)[L], std::int32_t (*sums)[2][L]) {
    __m512i high[R], low[R];
#pragma GCC unroll 2
    for (int row = 0; row < R; ++row) {
      high[row] = first ? __m512i{} : _mm512_load_si512(sums[row][0]);
      low[row] = first ? __m512i{} : _mm512_load_si512(sums[row][1]);
    }
#pragma GCC unroll 16
    for (int w = 0; w < L; ++w) {
      const auto word = reinterpret_cast<__m512i>(words[w]);
#pragma GCC unroll 2
      for (int row = 0; row < R; ++row) {
        high[row] = _mm512_dpbusd_epi32(high[row], word, broadcast(q + row * stride + w));
        low[row] =
            _mm512_dpbusd_epi32(low[row], word, broadcast(q + row * stride + vectors * L + w));
      }
    }
#pragma GCC unroll 2
    for (int row = 0; row < R; ++row) {
      _mm512_store_si512(sums[row][0], high[row]);
      _mm512_store_si512(sums[row][1], low[row]);
    }
  }

 protected:
  // The first `left` numbers at p, and zeros.
  LAMINA_SIMD static __m512i numbers(const Int8* p, std::int64_t left) {
    if (left >= kElements) return _mm512_loadu_si512(p);
    return _mm512_maskz_loadu_epi8((std::uint64_t{1} << left) - 1, p);
  }
  // Numbers plus 128, as unsigned bytes.
  LAMINA_SIMD static __m512i codes(__m512i numbers) {
    return _mm512_xor_si512(numbers, _mm512_set1_epi8(-128));
  }
  LAMINA_SIMD static F joined(__m512i high, __m512i low) {
    return _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_slli_epi32(high, 8), low));
  }
  LAMINA_SIMD static __m512i broadcast(const Word* p) {
    return _mm512_set1_epi32(static_cast<std::int32_t>(*p));
  }

 private:
  LAMINA_SIMD static F load(const std::uint16_t* p, std::int64_t left) {
    if (left >= L) return V::load_bf16(p);
    std::uint16_t rest[L] = {};
    std::memcpy(rest, p, static_cast<std::size_t>(left) * sizeof *p);
    return V::load_bf16(rest);
  }
  LAMINA_SIMD static F stored_factor(const Step& x, const Word* q) {
    return V::load(q + (2 * x.qk_vectors + 2) * L);
  }
};

#endif

}  // namespace
}  // namespace lamina::cpu
