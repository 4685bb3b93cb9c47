// The operands of the sums of decoding as floats, or as pairs of bf16 for vdpbf16ps: see
// decode_sums.h. Internal to each file that includes it.
#pragma once

#include "backends/cpu/attention/cached_rows.h"
#include "backends/cpu/attention/decode_step.h"
#include "backends/cpu/simd/vectors.h"

namespace lamina::cpu {
namespace {

// The first `left` of N numbers, and zeros.
template <class S, std::int64_t N>
struct Padded {
  S numbers[N] = {};
  Padded(const S* p, std::int64_t left) {
    std::memcpy(numbers, p, static_cast<std::size_t>(left) * sizeof(S));
  }
};

// T: float, or uint16_t for bf16. S: T, or the numbers of rows of formats/row_formats.h.
template <class V, class T, class S = T>
struct DecodeFloats {
  using F = typename V::F;
  using I = typename V::I;
  using Operand = F;
  using Sum = F;
  static constexpr int L = V::kLanes;
  static constexpr int kVectors = 2;  // of kElements numbers of a key
  static constexpr int kSlots = 1;    // whose values are one operand
  static constexpr std::int64_t kElements = kVectors * L;

  // A register of bf16 numbers becomes the numbers at even places and those at odd places.
  LAMINA_SIMD static void load(const S* p, F (&to)[kVectors]) {
    if constexpr (std::is_same_v<S, std::uint16_t>) {
      const I pairs = V::load_int(p);
      to[0] = reinterpret_cast<F>(pairs << 16);
      to[1] = reinterpret_cast<F>(pairs & V::set_int(static_cast<std::int32_t>(0xffff0000)));
    } else if constexpr (kIsNumber<S>) {
      to[0] = load_numbers<V>(p);
      to[1] = load_numbers<V>(p + L);
    } else {
      to[0] = V::load(p);
      to[1] = V::load(p + L);
    }
  }
  template <bool kWhole>
  LAMINA_SIMD static void load(const S* p, std::int64_t left, F (&to)[kVectors]) {
    if constexpr (kWhole)
      load(p, to);
    else
      load(Padded<S, kElements>(p, left).numbers, to);
  }

  // Joins the numbers at even places and those at odd places.
  LAMINA_SIMD static void join_places(F (&x)[kVectors]) {
    const F even = x[0], odd = x[1];
    x[0] = V::template shuffle<[](int i) { return i / 2 + i % 2 * L; }>(even, odd);
    x[1] = V::template shuffle<[](int i) { return L / 2 + i / 2 + i % 2 * L; }>(even, odd);
  }

  LAMINA_SIMD static void multiply_add(F a, F b, F& sum) { sum = V::multiply_add(a, b, sum); }
  LAMINA_SIMD static F add(F a, F b) { return a + b; }
  LAMINA_SIMD static F floats(F sums) { return sums; }

  // ---- queries ----

  static constexpr std::int64_t query_words(std::int64_t vectors) { return vectors * kElements; }

  // Stores a query, in the order of the keys' elements; returns its factor.
  static float store_query(const T* q, std::int64_t dim, Word* to) {
    using Query = DecodeFloats<V, T>;
    for (std::int64_t at = 0; at < dim; at += kElements, to += kElements) {
      F x[kVectors];
      if (dim - at >= kElements)
        Query::load(q + at, x);
      else
        Query::template load<false>(q + at, dim - at, x);
      if constexpr (sizeof(T) == 2 && kIsNumber<S>) join_places(x);
      V::store(to, x[0]);
      V::store(to + L, x[1]);
    }
    return 1;
  }
  LAMINA_SIMD static F query(const Word* q, int part) { return V::load(q + part * L); }

  // ---- weights ----

  // Stores the weights of the slots of a step for L rows; returns their factors.
  LAMINA_SIMD static F store_weights(const F (&p)[kDecodeKeys], std::int64_t count, Word* to,
                                     std::int64_t stride) {
    for (std::int64_t j = 0; j < count; ++j) V::store(to + j * stride, p[j]);
    return V::set(1);
  }
  LAMINA_SIMD static F first(const float* o) { return V::load(o); }
  LAMINA_SIMD static void store(float* o, F sum, float) { V::store(o, sum); }

  // Restores the order of the dims in the sums of a row.
  static void order_sums(float* o, std::int64_t vectors) {
    if constexpr (std::is_same_v<S, std::uint16_t>)
      for (std::int64_t n = 0; n < vectors; ++n, o += kElements) {
        F x[kVectors] = {V::load(o), V::load(o + L)};
        join_places(x);
        V::store(o, x[0]);
        V::store(o + L, x[1]);
      }
  }
};

#if defined(__AVX512BF16__)

// Loads 32 numbers as bf16. Numbers are 2^-8 times e4m3 ones: see cached_rows.h.
LAMINA_SIMD __m512 load_32(const std::uint16_t* p) { return Vectors<16>::load(p); }
LAMINA_SIMD __m512 load_32(const E4m3* p) {
  const auto words = [](int x) { return _mm512_set1_epi16(static_cast<short>(x)); };
  const __m512i x = _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  // The sign, the exponent and three bits of the mantissa at their places.
  const __m512i bits = _mm512_and_si512(_mm512_slli_epi16(x, 4), words(0x87f0));
  const __mmask32 subnormal = _mm512_testn_epi16_mask(bits, words(0x0780));
  // m 2^-17 for the mantissas 0 to 7, which are the lower five bits of subnormal numbers.
  const __m512i table =
      _mm512_setr_epi64(0x37c0'3780'3700'0000, 0x3860'3840'3820'3800, 0, 0, 0, 0, 0, 0);
  const __m512i normal = _mm512_add_epi16(bits, words((127 - 7 - 8) << 7));
  const __m512i out = _mm512_mask_permutexvar_epi16(normal, subnormal, x, table);
  return _mm512_castsi512_ps(_mm512_or_si512(out, _mm512_and_si512(bits, words(0x8000))));
}

// S: uint16_t for bf16, or E4m3.
template <class V, class S>
struct DecodePairs {
  using T = std::uint16_t;
  using F = typename V::F;
  using Operand = F;
  using Sum = F;
  static constexpr int L = V::kLanes;
  static_assert(L == 16);
  static constexpr int kVectors = 1;  // of kElements numbers of a key
  static constexpr int kSlots = 2;    // whose values are one operand
  static constexpr std::int64_t kElements = 32;

  template <bool kWhole>
  LAMINA_SIMD static void load(const S* p, std::int64_t left, F (&to)[kVectors]) {
    if constexpr (kWhole)
      to[0] = load_32(p);
    else
      to[0] = load_32(Padded<S, kElements>(p, left).numbers);
  }
  LAMINA_SIMD static void multiply_add(F a, F b, F& sum) { sum = dot_pairs(sum, a, b); }
  LAMINA_SIMD static F add(F a, F b) { return a + b; }
  LAMINA_SIMD static F floats(F sums) { return sums; }

  // ---- queries ----

  static constexpr std::int64_t query_words(std::int64_t vectors) { return vectors * L; }

  static float store_query(const T* q, std::int64_t dim, Word* to) {
    std::memset(to, 0, static_cast<std::size_t>(divide_up(dim, kElements) * L) * sizeof(Word));
    std::memcpy(to, q, static_cast<std::size_t>(dim) * sizeof(T));
    return 1;
  }
  LAMINA_SIMD static F query(const Word* q, int) { return V::load(q); }

  // ---- weights ----

  // Rounds the weights to bf16.
  LAMINA_SIMD static F store_weights(const F (&p)[kDecodeKeys], std::int64_t count, Word* to,
                                     std::int64_t stride) {
    for (std::int64_t j = 0; j < count; j += kSlots, to += stride) store_pairs(to, p[j], p[j + 1]);
    return V::set(1);
  }
  LAMINA_SIMD static F first(const float* o) { return V::load(o); }
  LAMINA_SIMD static void store(float* o, F sum, float) { V::store(o, sum); }

  static void order_sums(float* o, std::int64_t vectors) { order_pair_sums<V>(o, vectors); }
};

#endif

}  // namespace
}  // namespace lamina::cpu
