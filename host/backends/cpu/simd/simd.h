// Sixteen lanes of a number, on the vector registers that the including file is compiled for.
//
// A kernel is written once over Float, Int, Double and Long, in a *_simd.cc that is compiled three
// times. Sixteen lanes for every instruction set mean that sums are added in the same order; only
// fma() differs (one rounding if the machine has it, else two). Everything has internal linkage, so
// that no copy for one instruction set replaces another's. Has more than 400 lines, to keep the
// forms of an operation together.
#pragma once

#include <cstdint>
#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define LAMINA_SIMD [[gnu::always_inline]] inline

namespace lamina::cpu {
namespace {

constexpr int kLanes = 16;
#if defined(__AVX512F__)
constexpr int kNativeBytes = 64;
#elif defined(__AVX2__)
constexpr int kNativeBytes = 32;
#else
constexpr int kNativeBytes = 16;
#endif

// N numbers: one register, or two halves when they do not fit into one.
template <typename T, int N, bool kSplit = (sizeof(T) * N > kNativeBytes)>
struct Vec;

template <typename T, int N>
struct Vec<T, N, false> {
  static constexpr bool split = false;
  typedef T Raw __attribute__((vector_size(sizeof(T) * N)));
  Raw raw;
};

template <typename T, int N>
struct Vec<T, N, true> {
  static constexpr bool split = true;
  Vec<T, N / 2> lo, hi;
};

using Float = Vec<float, kLanes>;
using Int = Vec<std::int32_t, kLanes>;
using Words = Vec<std::uint32_t, kLanes>;
using Double = Vec<double, kLanes>;
using Long = Vec<std::int64_t, kLanes>;
using Half = Vec<std::uint16_t, kLanes>;  // bits of bf16 or f16

template <typename V>
struct Elements;
template <typename T, int N>
struct Elements<Vec<T, N>> {
  using Type = T;
  static constexpr int count = N;
};
// The vector of integers that a comparison of V yields: all bits set where true.
template <typename V>
struct MaskOf;
template <int N>
struct MaskOf<Vec<float, N>> {
  using Type = Vec<std::int32_t, N>;
};
template <int N>
struct MaskOf<Vec<std::int32_t, N>> {
  using Type = Vec<std::int32_t, N>;
};
template <int N>
struct MaskOf<Vec<std::uint32_t, N>> {
  using Type = Vec<std::int32_t, N>;
};
template <int N>
struct MaskOf<Vec<double, N>> {
  using Type = Vec<std::int64_t, N>;
};
template <int N>
struct MaskOf<Vec<std::int64_t, N>> {
  using Type = Vec<std::int64_t, N>;
};

// All lanes equal to x.
template <typename V>
LAMINA_SIMD V splat(typename Elements<V>::Type x) {
  if constexpr (V::split)
    return {splat<decltype(V::lo)>(x), splat<decltype(V::hi)>(x)};
  else
    return {x - typename V::Raw{}};
}
LAMINA_SIMD Float splat(float x) { return splat<Float>(x); }

// The bits at p, whatever their type there.
template <typename V>
LAMINA_SIMD V load_bits(const void* p) {
  V v;
  if constexpr (V::split) {
    v.lo = load_bits<decltype(V::lo)>(p);
    v.hi = load_bits<decltype(V::hi)>(static_cast<const char*>(p) + sizeof(v.lo));
  } else {
    __builtin_memcpy(&v.raw, p, sizeof(v.raw));
  }
  return v;
}
template <typename V>
LAMINA_SIMD V load_raw(const typename Elements<V>::Type* p) {
  return load_bits<V>(p);
}

template <typename V>
LAMINA_SIMD void store_raw(typename Elements<V>::Type* p, V v) {
  if constexpr (V::split) {
    store_raw(p, v.lo);
    store_raw(p + Elements<V>::count / 2, v.hi);
  } else {
    __builtin_memcpy(p, &v.raw, sizeof(v.raw));
  }
}

#define LAMINA_SIMD_BINARY(op)                                  \
  template <typename T, int N>                                  \
  LAMINA_SIMD Vec<T, N> operator op(Vec<T, N> a, Vec<T, N> b) { \
    if constexpr (Vec<T, N>::split)                             \
      return {a.lo op b.lo, a.hi op b.hi};                      \
    else                                                        \
      return {a.raw op b.raw};                                  \
  }
LAMINA_SIMD_BINARY(+)
LAMINA_SIMD_BINARY(-)
LAMINA_SIMD_BINARY(*)
LAMINA_SIMD_BINARY(/)
LAMINA_SIMD_BINARY(&)
LAMINA_SIMD_BINARY(|)
LAMINA_SIMD_BINARY(^)
#undef LAMINA_SIMD_BINARY

#define LAMINA_SIMD_COMPARE(op)                                                        \
  template <typename T, int N>                                                         \
  LAMINA_SIMD typename MaskOf<Vec<T, N>>::Type operator op(Vec<T, N> a, Vec<T, N> b) { \
    if constexpr (Vec<T, N>::split)                                                    \
      return {a.lo op b.lo, a.hi op b.hi};                                             \
    else                                                                               \
      return {a.raw op b.raw};                                                         \
  }
LAMINA_SIMD_COMPARE(<)
LAMINA_SIMD_COMPARE(<=)
LAMINA_SIMD_COMPARE(>)
LAMINA_SIMD_COMPARE(>=)
LAMINA_SIMD_COMPARE(==)
LAMINA_SIMD_COMPARE(!=)
#undef LAMINA_SIMD_COMPARE

template <typename T, int N>
LAMINA_SIMD Vec<T, N> shift_left(Vec<T, N> a, int bits) {
  if constexpr (Vec<T, N>::split)
    return {shift_left(a.lo, bits), shift_left(a.hi, bits)};
  else
    return {a.raw << bits};
}
// Arithmetic for signed, logical for unsigned elements.
template <typename T, int N>
LAMINA_SIMD Vec<T, N> shift_right(Vec<T, N> a, int bits) {
  if constexpr (Vec<T, N>::split)
    return {shift_right(a.lo, bits), shift_right(a.hi, bits)};
  else
    return {a.raw >> bits};
}

// mask ? a : b, lane by lane; mask comes from a comparison.
template <typename V>
LAMINA_SIMD V select(typename MaskOf<V>::Type mask, V a, V b) {
  if constexpr (V::split)
    return {select(mask.lo, a.lo, b.lo), select(mask.hi, a.hi, b.hi)};
  else
    return {mask.raw ? a.raw : b.raw};
}

// The same bits as another element type of the same width.
template <typename To, typename From>
LAMINA_SIMD To bits_as(From a) {
  if constexpr (To::split)
    return {bits_as<decltype(To::lo)>(a.lo), bits_as<decltype(To::hi)>(a.hi)};
  else
    return {reinterpret_cast<typename To::Raw>(a.raw)};
}

template <typename T, int N>
LAMINA_SIMD Vec<T, N / 2> low_half(Vec<T, N> a) {
  if constexpr (Vec<T, N>::split)
    return a.lo;
  else if constexpr (N == 16)
    return {__builtin_shufflevector(a.raw, a.raw, 0, 1, 2, 3, 4, 5, 6, 7)};
  else if constexpr (N == 8)
    return {__builtin_shufflevector(a.raw, a.raw, 0, 1, 2, 3)};
  else
    return {__builtin_shufflevector(a.raw, a.raw, 0, 1)};
}
template <typename T, int N>
LAMINA_SIMD Vec<T, N / 2> high_half(Vec<T, N> a) {
  if constexpr (Vec<T, N>::split)
    return a.hi;
  else if constexpr (N == 16)
    return {__builtin_shufflevector(a.raw, a.raw, 8, 9, 10, 11, 12, 13, 14, 15)};
  else if constexpr (N == 8)
    return {__builtin_shufflevector(a.raw, a.raw, 4, 5, 6, 7)};
  else
    return {__builtin_shufflevector(a.raw, a.raw, 2, 3)};
}
template <typename T, int N>
LAMINA_SIMD Vec<T, 2 * N> join(Vec<T, N> lo, Vec<T, N> hi) {
  if constexpr (Vec<T, 2 * N>::split)
    return {lo, hi};
  else if constexpr (N == 8)
    return {__builtin_shufflevector(lo.raw, hi.raw, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13,
                                    14, 15)};
  else if constexpr (N == 4)
    return {__builtin_shufflevector(lo.raw, hi.raw, 0, 1, 2, 3, 4, 5, 6, 7)};
  else
    return {__builtin_shufflevector(lo.raw, hi.raw, 0, 1, 2, 3)};
}

// Numeric conversion, eg: convert<Double>(x). Float to integer truncates and must be in range.
template <typename To, typename From>
LAMINA_SIMD To convert(From a) {
  if constexpr (To::split)
    return {convert<decltype(To::lo)>(low_half(a)), convert<decltype(To::hi)>(high_half(a))};
  else if constexpr (From::split) {
    using HalfTo = Vec<typename Elements<To>::Type, Elements<To>::count / 2>;
    return join(convert<HalfTo>(a.lo), convert<HalfTo>(a.hi));
  } else {
#if defined(__AVX512F__)
    // GCC 12 widens the two halves one by one.
    if constexpr (std::is_same_v<From, Vec<std::uint16_t, 16>> && sizeof(To) == 64)
      return {reinterpret_cast<typename To::Raw>(
          _mm512_cvtepu16_epi32(reinterpret_cast<__m256i>(a.raw)))};
#endif
    return {__builtin_convertvector(a.raw, typename To::Raw)};
  }
}

// a * b + c, rounded once where the machine can.
template <typename T, int N>
LAMINA_SIMD Vec<T, N> fma(Vec<T, N> a, Vec<T, N> b, Vec<T, N> c) {
  if constexpr (Vec<T, N>::split) {
    return {fma(a.lo, b.lo, c.lo), fma(a.hi, b.hi, c.hi)};
  } else {
#if defined(__AVX512F__)
    if constexpr (sizeof(T) * N == 64) {
      if constexpr (sizeof(T) == 4)
        return {_mm512_fmadd_ps(a.raw, b.raw, c.raw)};
      else
        return {_mm512_fmadd_pd(a.raw, b.raw, c.raw)};
    }
#endif
#if defined(__FMA__)
    if constexpr (sizeof(T) * N == 32) {
      if constexpr (sizeof(T) == 4)
        return {_mm256_fmadd_ps(a.raw, b.raw, c.raw)};
      else
        return {_mm256_fmadd_pd(a.raw, b.raw, c.raw)};
    }
#endif
    return {a.raw * b.raw + c.raw};
  }
}

template <typename T, int N>
LAMINA_SIMD Vec<T, N> sqrt(Vec<T, N> a) {
  if constexpr (Vec<T, N>::split) {
    return {sqrt(a.lo), sqrt(a.hi)};
  } else {
#if defined(__AVX512F__)
    if constexpr (sizeof(T) * N == 64) {
      if constexpr (sizeof(T) == 4)
        return {_mm512_sqrt_ps(a.raw)};
      else
        return {_mm512_sqrt_pd(a.raw)};
    }
#endif
#if defined(__AVX2__)
    if constexpr (sizeof(T) * N == 32) {
      if constexpr (sizeof(T) == 4)
        return {_mm256_sqrt_ps(a.raw)};
      else
        return {_mm256_sqrt_pd(a.raw)};
    }
#endif
    Vec<T, N> r = a;
    for (int i = 0; i < N; ++i) {
      if constexpr (sizeof(T) == 4)
        r.raw[i] = __builtin_sqrtf(a.raw[i]);
      else
        r.raw[i] = __builtin_sqrt(a.raw[i]);
    }
    return r;
  }
}

// The larger (smaller) lane; b where either is not a number.
template <typename T, int N>
LAMINA_SIMD Vec<T, N> max(Vec<T, N> a, Vec<T, N> b) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) * N == 64 && Elements<Vec<T, N>>::count == 16 && T(0.5) != T(0))
    return {_mm512_max_ps(a.raw, b.raw)};
#endif
#if defined(__AVX2__)
  if constexpr (sizeof(T) * N == 32 && sizeof(T) == 4 && T(0.5) != T(0))
    return {_mm256_max_ps(a.raw, b.raw)};
#endif
  return select(a > b, a, b);
}
template <typename T, int N>
LAMINA_SIMD Vec<T, N> min(Vec<T, N> a, Vec<T, N> b) {
#if defined(__AVX512F__)
  if constexpr (sizeof(T) * N == 64 && Elements<Vec<T, N>>::count == 16 && T(0.5) != T(0))
    return {_mm512_min_ps(a.raw, b.raw)};
#endif
#if defined(__AVX2__)
  if constexpr (sizeof(T) * N == 32 && sizeof(T) == 4 && T(0.5) != T(0))
    return {_mm256_min_ps(a.raw, b.raw)};
#endif
  return select(a < b, a, b);
}

// max and min that give NaN if either lane is.
LAMINA_SIMD Float max_nan(Float a, Float b) { return select(a != a, a, max(a, b)); }
LAMINA_SIMD Float min_nan(Float a, Float b) { return select(a != a, a, min(a, b)); }

LAMINA_SIMD Float abs(Float a) { return bits_as<Float>(bits_as<Int>(a) & splat<Int>(0x7fffffff)); }
// The magnitude of a with the sign of b.
LAMINA_SIMD Float copy_sign(Float a, Float b) {
  return bits_as<Float>((bits_as<Int>(a) & splat<Int>(0x7fffffff)) |
                        (bits_as<Int>(b) & splat<Int>(INT32_MIN)));
}
LAMINA_SIMD Float operator-(Float a) {
  return bits_as<Float>(bits_as<Int>(a) ^ splat<Int>(INT32_MIN));
}

// Sum and maximum of the lanes, always by halves: 16 to 8 to 4 to 2 to 1.
template <typename T, int N>
LAMINA_SIMD T sum_lanes(Vec<T, N> a) {
  if constexpr (N == 2) {
    if constexpr (Vec<T, N>::split)
      return a.lo.raw[0] + a.hi.raw[0];
    else
      return a.raw[0] + a.raw[1];
  } else {
    return sum_lanes(low_half(a) + high_half(a));
  }
}
template <typename T, int N>
LAMINA_SIMD T max_lanes(Vec<T, N> a) {
  if constexpr (N == 2) {
    return a.raw[0] > a.raw[1] ? a.raw[0] : a.raw[1];
  } else {
    return max_lanes(max(low_half(a), high_half(a)));
  }
}
// True where any lane of a mask is set.
LAMINA_SIMD bool any(Int mask) {
#if defined(__AVX512F__)
  return _mm512_movepi32_mask(reinterpret_cast<__m512i>(mask.raw)) != 0;
#else
  std::int32_t lanes[kLanes];
  store_raw(lanes, mask);
  std::int32_t all = 0;
  for (std::int32_t lane : lanes) all |= lane;
  return all != 0;
#endif
}

// Every lane twice: a0 a0 a1 a1 ...
template <typename T, int N>
LAMINA_SIMD Vec<T, 2 * N> duplicate_lanes(Vec<T, N> a) {
  if constexpr (Vec<T, 2 * N>::split)
    return {duplicate_lanes(low_half(a)), duplicate_lanes(high_half(a))};
  else if constexpr (N == 8)
    return {__builtin_shufflevector(a.raw, a.raw, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7)};
  else if constexpr (N == 4)
    return {__builtin_shufflevector(a.raw, a.raw, 0, 0, 1, 1, 2, 2, 3, 3)};
  else
    return {__builtin_shufflevector(a.raw, a.raw, 0, 0, 1, 1)};
}
// Neighbours exchanged: a1 a0 a3 a2 ...
template <typename T, int N>
LAMINA_SIMD Vec<T, N> swap_neighbours(Vec<T, N> a) {
  if constexpr (Vec<T, N>::split)
    return {swap_neighbours(a.lo), swap_neighbours(a.hi)};
  else if constexpr (N == 16)
    return {__builtin_shufflevector(a.raw, a.raw, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15,
                                    14)};
  else if constexpr (N == 8)
    return {__builtin_shufflevector(a.raw, a.raw, 1, 0, 3, 2, 5, 4, 7, 6)};
  else
    return {__builtin_shufflevector(a.raw, a.raw, 1, 0, 3, 2)};
}

// One number: the bits of a bf16 as f32, and back, to the nearest even as core/float16.h does.
inline float widen(std::uint16_t bits) {
  const std::uint32_t wide = std::uint32_t{bits} << 16;
  float value;
  __builtin_memcpy(&value, &wide, sizeof value);
  return value;
}
inline std::uint16_t narrow(float value) {
  std::uint32_t u;
  __builtin_memcpy(&u, &value, sizeof u);
  const std::uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  const std::uint32_t quiet = (u >> 16) | 0x40u;
  return static_cast<std::uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
}

// Lane numbers 0 .. 15.
LAMINA_SIMD Int lane_numbers() {
  static constexpr std::int32_t kNumbers[kLanes] = {0, 1, 2,  3,  4,  5,  6,  7,
                                                    8, 9, 10, 11, 12, 13, 14, 15};
  return load_raw<Int>(kNumbers);
}

}  // namespace
}  // namespace lamina::cpu
