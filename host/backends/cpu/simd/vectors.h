// Vectors of 4, 8 or 16 floats for the attention kernels, and the few operations they need.
// Included by files compiled for several instruction sets, hence everything is internal; which
// widths exist follows from the flags of the file.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#define LAMINA_ALWAYS_INLINE inline __attribute__((always_inline))

namespace lamina::cpu {
namespace {

// 32 bits of an operand of a product: a float, or two neighbours of a sum in bf16.
typedef std::uint32_t __attribute__((may_alias)) Word;

// Loose: at any address that holds a bf16. Spelled out: GCC 12 ignores a vector_size that depends
// on a template parameter.
template <int L>
struct VectorTypes;
#define LAMINA_VECTOR_TYPES(L)                                                              \
  template <>                                                                               \
  struct VectorTypes<L> {                                                                   \
    typedef float F __attribute__((vector_size(L * 4)));                                    \
    typedef std::int32_t I __attribute__((vector_size(L * 4)));                             \
    typedef float LooseF __attribute__((vector_size(L * 4), aligned(2), may_alias));        \
    typedef std::int32_t LooseI __attribute__((vector_size(L * 4), aligned(2), may_alias)); \
    typedef std::uint16_t Half __attribute__((vector_size(L * 2), aligned(2), may_alias));  \
  };
LAMINA_VECTOR_TYPES(4)
LAMINA_VECTOR_TYPES(8)
LAMINA_VECTOR_TYPES(16)
#undef LAMINA_VECTOR_TYPES

template <int L>
struct Vectors : VectorTypes<L> {
  static constexpr int kLanes = L;
  using typename VectorTypes<L>::F;
  using typename VectorTypes<L>::I;
  using typename VectorTypes<L>::LooseF;
  using typename VectorTypes<L>::LooseI;
  using typename VectorTypes<L>::Half;

  static LAMINA_ALWAYS_INLINE F load(const void* p) { return *static_cast<const LooseF*>(p); }
  static LAMINA_ALWAYS_INLINE I load_int(const void* p) { return *static_cast<const LooseI*>(p); }
  static LAMINA_ALWAYS_INLINE void store(void* p, F x) { *static_cast<LooseF*>(p) = x; }
  static LAMINA_ALWAYS_INLINE void store_int(void* p, I x) { *static_cast<LooseI*>(p) = x; }
  static LAMINA_ALWAYS_INLINE F set(float x) { return x - F{}; }
  static LAMINA_ALWAYS_INLINE I set_int(std::int32_t x) { return x - I{}; }
  static LAMINA_ALWAYS_INLINE F select(I mask, F a, F b) { return mask ? a : b; }
  static LAMINA_ALWAYS_INLINE F broadcast(const Word* p) {
    return reinterpret_cast<F>(set_int(static_cast<std::int32_t>(*p)));
  }
  static LAMINA_ALWAYS_INLINE F load_bf16(const void* p) {
    I wide = __builtin_convertvector(*static_cast<const Half*>(p), I);
    return reinterpret_cast<F>(wide << 16);
  }

  static LAMINA_ALWAYS_INLINE F multiply_add(F a, F b, F c) {
#if defined(__AVX512F__)
    if constexpr (L == 16) return _mm512_fmadd_ps(a, b, c);
#endif
#if defined(__FMA__)
    if constexpr (L == 8) return _mm256_fmadd_ps(a, b, c);
#endif
    return a * b + c;
  }

  // b if either is a NaN.
  static LAMINA_ALWAYS_INLINE F max(F a, F b) {
#if defined(__AVX512F__)
    if constexpr (L == 16) return _mm512_max_ps(a, b);
#endif
#if defined(__AVX2__)
    if constexpr (L == 8) return _mm256_max_ps(a, b);
#endif
    return a > b ? a : b;
  }

  // 2^x for finite x <= 126; 0 for x far below -127. A NaN stays one. kDegree 4: 6e-6 relative,
  // 6: 1e-7.
  template <int kDegree>
  static LAMINA_ALWAYS_INLINE F exp2(F x) {
    F n;
#if defined(__AVX512F__)
    if constexpr (L == 16)
      n = _mm512_roundscale_ps(x, 8);
    else
#endif
    {  // adding 1.5 * 2^23 leaves the nearest integer in the low bits
      const F shift = set(12582912.0f);
      x = max(set(-127.0f), x);
      n = (x + shift) - shift;
    }
    const F f = x - n;
    F y;
    if constexpr (kDegree == 4) {
      y = multiply_add(f, set(0.009635466606f), set(0.05600121522f));
      y = multiply_add(f, y, set(0.240230097f));
      y = multiply_add(f, y, set(0.6931061901f));
    } else {
      y = multiply_add(f, set(0.0001539410374f), set(0.001340923074f));
      y = multiply_add(f, y, set(0.009618294484f));
      y = multiply_add(f, y, set(0.05550299719f));
      y = multiply_add(f, y, set(0.2402264904f));
      y = multiply_add(f, y, set(0.6931472239f));
    }
    y = multiply_add(f, y, set(1.0f));
#if defined(__AVX512F__)
    if constexpr (L == 16) return _mm512_scalef_ps(y, n);
#endif
    const I exponent = (__builtin_convertvector(n, I) + 127) << 23;
    return n == n ? y * reinterpret_cast<F>(exponent) : n;
  }

  static LAMINA_ALWAYS_INLINE F tanh(F x) {
    x = max(set(-12.0f), -max(set(-12.0f), -x));
    const F e = exp2<6>(x * set(2 * 1.44269504f));
    return (e - set(1.0f)) / (e + set(1.0f));
  }

  // Spelled as a table: GCC 12 builds the indices of a shuffle in a loop at run time otherwise.
  template <int kDistance>
  struct Exchange {
    std::int32_t lane[L];
    constexpr Exchange() : lane{} {
      for (int i = 0; i < L; ++i) lane[i] = i ^ kDistance;
    }
  };
  template <int kDistance>
  static LAMINA_ALWAYS_INLINE F exchange(F x) {
    static constexpr Exchange<kDistance> order;
    return __builtin_shuffle(x, load_int(order.lane));
  }
  // The largest lane, in every lane; the sum of the lanes likewise.
  template <int kDistance = L / 2>
  static LAMINA_ALWAYS_INLINE F max_lane(F x) {
    x = max(x, exchange<kDistance>(x));
    if constexpr (kDistance > 1) x = max_lane<kDistance / 2>(x);
    return x;
  }
  template <int kDistance = L / 2>
  static LAMINA_ALWAYS_INLINE F sum_lanes(F x) {
    x += exchange<kDistance>(x);
    if constexpr (kDistance > 1) x = sum_lanes<kDistance / 2>(x);
    return x;
  }

  // Lane i of the result is the sum of the lanes of rows[i]. Call with kCount = L.
  template <int kCount>
  static LAMINA_ALWAYS_INLINE F fold(F* rows) {
    if constexpr (kCount == 1) {
      return rows[0];
    } else {
      I even, odd;
      for (int i = 0; i < L; ++i) {
        even[i] = 2 * i;
        odd[i] = 2 * i + 1;
      }
#pragma GCC unroll 8
      for (int i = 0; i < kCount / 2; ++i)
        rows[i] = __builtin_shuffle(rows[2 * i], rows[2 * i + 1], even) +
                  __builtin_shuffle(rows[2 * i], rows[2 * i + 1], odd);
      return fold<kCount / 2>(rows);
    }
  }

  // Transposes L vectors in log2(L) rounds of pairing row i with row i + L/2.
  static LAMINA_ALWAYS_INLINE void transpose(F (&rows)[L]) {
    I low, high;
    for (int i = 0; i < L; ++i) {
      low[i] = i / 2 + (i % 2) * L;
      high[i] = L / 2 + i / 2 + (i % 2) * L;
    }
    for (int round = 1; round < L; round *= 2) {
      F next[L];
      for (int i = 0; i < L / 2; ++i) {
        next[2 * i] = __builtin_shuffle(rows[i], rows[i + L / 2], low);
        next[2 * i + 1] = __builtin_shuffle(rows[i], rows[i + L / 2], high);
      }
      for (int i = 0; i < L; ++i) rows[i] = next[i];
    }
  }
};

#if defined(__AVX512BF16__)
// acc + a0 * b0 + a1 * b1 per lane of bf16 pairs.
LAMINA_ALWAYS_INLINE __m512 dot_pairs(__m512 acc, __m512 a, __m512 b) {
  return _mm512_dpbf16_ps(acc, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
}
// 16 words whose low halves are `low` and high halves `high`, rounded to bf16.
LAMINA_ALWAYS_INLINE void store_pairs(Word* p, __m512 low, __m512 high) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24,
                                         8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const __m512i packed = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
  _mm512_storeu_si512(p, _mm512_permutexvar_epi16(order, packed));
}
// 16 neighbours as 8 words.
LAMINA_ALWAYS_INLINE void store_neighbours(Word* p, __m512 x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(x)));
}
#endif

// bf16 <-> float for whole rows; nearest even, a NaN stays one.
inline void widen_row(const std::uint16_t* src, std::int64_t n, Word* dst) {
  for (std::int64_t i = 0; i < n; ++i) dst[i] = static_cast<std::uint32_t>(src[i]) << 16;
}
inline void narrow_row(const Word* src, std::int64_t n, std::uint16_t* dst) {
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint32_t u = src[i];
    const std::uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    const std::uint32_t nan = (u >> 16) | 0x40u;
    dst[i] = static_cast<std::uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
  }
}

}  // namespace
}  // namespace lamina::cpu
