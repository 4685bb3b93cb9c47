// The operands of the sums of decode_group_sums.h as integers of 16 bits, for queries of bf16 and
// rows of int8. A lane of a sum has 32 bits and gets two products at a time, so sums are exact.
//
// Queries are rounded as in decode_integers.h. The weights of a block of slots, times the scales of
// the values, are rounded to 32767ths of the largest. Internal to each file that includes it.
#pragma once

#include "backends/cpu/attention/decode_group_floats.h"
#include "backends/cpu/attention/decode_integer_factors.h"

namespace lamina::cpu {
namespace {

#if defined(__AVX2__)

template <class V>
struct GroupIntegers {
  using F = typename V::F;
  using Operand = __m256i;
  using Sum = typename V::I;
  static constexpr int L = V::kLanes;
  static_assert(L == 8);
  static constexpr int kVectors = 1;  // of kElements numbers of a key
  static constexpr int kSlots = 2;    // whose values are one operand
  static constexpr std::int64_t kElements = 16;

  template <bool kWhole>
  LAMINA_SIMD static void load(const Int8* p, std::int64_t left, __m256i (&to)[kVectors]) {
    if constexpr (kWhole)
      to[0] = widened(p);
    else
      to[0] = widened(Padded<Int8, kElements>(p, left).numbers);
  }
  // Loads pairs of the values of two slots: dims 0 to 3 and 8 to 11, then the others.
  template <bool kWhole>
  LAMINA_SIMD static void load_values(const Int8* p, const Int8* partner, std::int64_t left,
                                      __m256i (&to)[2]) {
    __m256i a[kVectors], b[kVectors];
    load<kWhole>(p, left, a);
    load<kWhole>(partner, left, b);
    to[0] = _mm256_unpacklo_epi16(a[0], b[0]);
    to[1] = _mm256_unpackhi_epi16(a[0], b[0]);
  }

  LAMINA_SIMD static void multiply_add(__m256i a, __m256i b, Sum& sum) {
    sum += reinterpret_cast<Sum>(_mm256_madd_epi16(a, b));
  }
  LAMINA_SIMD static F add(F a, F b) {
    return reinterpret_cast<F>(reinterpret_cast<Sum>(a) + reinterpret_cast<Sum>(b));
  }

  // ---- queries ----

  // A query: vectors of integers; the factor.
  static constexpr std::int64_t query_words(std::int64_t vectors) { return (vectors + 1) * L; }

  static void store_query(const std::uint16_t* q, std::int64_t dim, Word* to) {
    const auto values = [&](std::int64_t i) {
      if (dim - i >= L) return V::load_bf16(q + i);
      return V::load_bf16(Padded<std::uint16_t, L>(q + i, max(0, dim - i)).numbers);
    };
    Largest largest;
    for (std::int64_t i = 0; i < dim; i += L) {
      const F x = values(i);
      largest.take(V::max(x, -x), x);
    }
    const IntegerFactor factor = factor_of_query(largest.value(), largest.is_finite);
    const F inverse = V::set(factor.inverse);
    for (std::int64_t i = 0; i < dim; i += kElements, to += L)
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                          narrowed(values(i) * inverse, values(i + L) * inverse));
    V::store(to, V::set(factor.factor));
  }
  LAMINA_SIMD static __m256i query(const Word* q, std::int64_t at, int) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(q + at / 2));
  }
  // The factors of L sums, kKeys for each of R queries, which are `words` apart.
  template <int R, int kKeys>
  LAMINA_SIMD static F factors(const Word* q, std::int64_t words) {
    float lanes[L];
    for (int lane = 0; lane < L; ++lane) {
      const int row = lane / kKeys < R ? lane / kKeys : 0;
      std::memcpy(lanes + lane, q + (row + 1) * words - L, sizeof(float));
    }
    return V::load(lanes);
  }
  LAMINA_SIMD static F logits(F sums, F factors) {
    return __builtin_convertvector(reinterpret_cast<Sum>(sums), F) * factors;
  }

  // ---- weights ----

  // The weights of R rows of a block, which are kDecodeKeys apart.
  template <int R>
  struct Weights {
    alignas(32) std::int16_t integers[R][kDecodeKeys];
    float factor[R];

    // Reads `count` weights of each row, rounded up to whole vectors.
    Weights(const Word* from, std::int64_t count) {
      for (int row = 0; row < R; ++row, from += kDecodeKeys) {
        Largest largest;
        for (std::int64_t j = 0; j < count; j += L) {
          const F w = V::load(from + j);
          largest.take(w, w);
        }
        const auto rounding = factor_of_weights<32767>(largest.value(), largest.is_finite);
        const F inverse = V::set(rounding.inverse);
        factor[row] = rounding.factor;
        for (std::int64_t j = 0; j < count; j += 2 * L)
          _mm256_store_si256(reinterpret_cast<__m256i*>(&integers[row][j]),
                             narrowed(V::load(from + j) * inverse,
                                      j + L < count ? V::load(from + j + L) * inverse : F{}));
      }
    }
    // The weights of a slot and the next one.
    LAMINA_SIMD __m256i of(int row, std::int64_t slot) const {
      std::int32_t pair;
      std::memcpy(&pair, &integers[row][slot], sizeof pair);
      return _mm256_set1_epi32(pair);
    }
    LAMINA_SIMD static Sum first(const float*) { return Sum{}; }
    LAMINA_SIMD void store(float* o, Sum sum, int row) const {
      const F x = __builtin_convertvector(sum, F);
      V::store(o, V::multiply_add(x, V::set(factor[row]), V::load(o)));
    }
  };

  // Restores the order of the dims in the sums of a row, which load_values() leaves in fours.
  static void order_sums(float* o, std::int64_t vectors) {
    for (std::int64_t n = 0; n < vectors; ++n, o += kElements) {
      const F low = V::load(o), high = V::load(o + L);
      V::store(o, V::template shuffle<[](int i) { return i % 4 + i / 4 * L; }>(low, high));
      V::store(o + L, V::template shuffle<[](int i) { return 4 + i % 4 + i / 4 * L; }>(low, high));
    }
  }

 private:
  // The largest of many numbers.
  struct Largest {
    F lanes{};
    bool is_finite = true;  // all that were checked
    LAMINA_SIMD void take(F x, F checked) {
      lanes = V::max(lanes, x);
      const F zero = checked - checked;
      is_finite &= _mm256_movemask_ps(_mm256_cmp_ps(zero, zero, _CMP_EQ_OQ)) == 0xff;
    }
    LAMINA_SIMD float value() const { return V::max_lane(lanes)[0]; }
  };

  LAMINA_SIMD static __m256i widened(const Int8* p) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  // Rounds to integers of 16 bits.
  LAMINA_SIMD static __m256i narrowed(F low, F high) {
    const __m256i halves = _mm256_packs_epi32(_mm256_cvtps_epi32(low), _mm256_cvtps_epi32(high));
    return _mm256_permute4x64_epi64(halves, 0xd8);
  }
};

#endif

}  // namespace
}  // namespace lamina::cpu
