// Numbers in the memory of the GPU, and the type of arithmetic on them: f32 for the 16-bit types.
// Bit compatible with core/float16.h. Included by gpu.h.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#ifndef __CUDACC__
#include "core/float16.h"
#endif

namespace lamina::cuda::gpu {

struct bfloat16 {
  std::uint16_t bits;
};
struct float16 {
  std::uint16_t bits;
};

// The type of arithmetic on a T.
template <typename T>
struct WideNumber {
  using Type = T;
};
template <>
struct WideNumber<bfloat16> {
  using Type = float;
};
template <>
struct WideNumber<float16> {
  using Type = float;
};
template <typename T>
using Wide = typename WideNumber<std::remove_const_t<T>>::Type;

template <typename T>
LAMINA_GPU_FUNCTION T widen(T x) {
  return x;
}
#ifdef __CUDACC__
LAMINA_GPU_FUNCTION float widen(bfloat16 x) {
  return __uint_as_float(static_cast<unsigned>(x.bits) << 16);
}
LAMINA_GPU_FUNCTION float widen(float16 x) {
  float out;
  asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(x.bits));
  return out;
}
#else
inline float widen(bfloat16 x) { return lamina::to_float(lamina::bfloat16{x.bits}); }
inline float widen(float16 x) { return lamina::to_float(lamina::float16{x.bits}); }
#endif

// Rounds to nearest even. Integers become integers by the rules of C++.
template <typename T>
struct Narrow {
  template <typename From>
  static LAMINA_GPU_FUNCTION T from(From x) {
    return static_cast<T>(x);
  }
};
#ifdef __CUDACC__
template <>
struct Narrow<bfloat16> {
  static LAMINA_GPU_FUNCTION bfloat16 from(float x) {
    bfloat16 out;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(out.bits) : "f"(x));
    return out;
  }
};
template <>
struct Narrow<float16> {
  static LAMINA_GPU_FUNCTION float16 from(float x) {
    float16 out;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out.bits) : "f"(x));
    return out;
  }
};
#else
template <>
struct Narrow<bfloat16> {
  static bfloat16 from(float x) { return {lamina::to_bfloat16(x).bits}; }
};
template <>
struct Narrow<float16> {
  static float16 from(float x) { return {lamina::to_float16(x).bits}; }
};
#endif
template <typename T, typename From>
LAMINA_GPU_FUNCTION T narrow(From x) {
  return Narrow<T>::from(x);
}

template <typename T>
LAMINA_GPU_FUNCTION Wide<T> load(Global<T> x, std::int64_t i) {
  return widen(static_cast<std::remove_const_t<T>>(x[i]));
}
template <typename T>
LAMINA_GPU_FUNCTION Wide<T> load(Shared<T> x, int i) {
  return widen(static_cast<std::remove_const_t<T>>(x[i]));
}
template <typename T>
LAMINA_GPU_FUNCTION void store(Global<T> x, std::int64_t i, Wide<T> value) {
  x[i] = narrow<T>(value);
}
template <typename T>
LAMINA_GPU_FUNCTION void store(Shared<T> x, int i, Wide<T> value) {
  x[i] = narrow<T>(value);
}

template <typename T>
LAMINA_GPU_FUNCTION T min(T a, T b) {
  return b < a ? b : a;
}
template <typename T>
LAMINA_GPU_FUNCTION T max(T a, T b) {
  return a < b ? b : a;
}
// The larger one; NaN wins.
template <typename T>
LAMINA_GPU_FUNCTION T max_or_nan(T a, T b) {
#ifdef __CUDACC__
  if constexpr (std::is_same_v<T, float>) {
    asm("max.NaN.f32 %0, %0, %1;" : "+f"(a) : "f"(b));
    return a;
  }
#endif
  return a < b || b != b ? b : a;
}
LAMINA_GPU_FUNCTION float exp(float x) { return ::expf(x); }
LAMINA_GPU_FUNCTION double exp(double x) { return ::exp(x); }
LAMINA_GPU_FUNCTION float log(float x) { return ::logf(x); }
LAMINA_GPU_FUNCTION double log(double x) { return ::log(x); }
LAMINA_GPU_FUNCTION float sqrt(float x) { return ::sqrtf(x); }
LAMINA_GPU_FUNCTION double sqrt(double x) { return ::sqrt(x); }
LAMINA_GPU_FUNCTION float tanh(float x) { return ::tanhf(x); }
LAMINA_GPU_FUNCTION double tanh(double x) { return ::tanh(x); }
LAMINA_GPU_FUNCTION float sin(float x) { return ::sinf(x); }
LAMINA_GPU_FUNCTION double sin(double x) { return ::sin(x); }
LAMINA_GPU_FUNCTION float cos(float x) { return ::cosf(x); }
LAMINA_GPU_FUNCTION double cos(double x) { return ::cos(x); }
LAMINA_GPU_FUNCTION float abs(float x) { return ::fabsf(x); }
LAMINA_GPU_FUNCTION double abs(double x) { return ::fabs(x); }
LAMINA_GPU_FUNCTION float fma(float a, float b, float c) { return ::fmaf(a, b, c); }
LAMINA_GPU_FUNCTION double fma(double a, double b, double c) { return ::fma(a, b, c); }
#ifdef __CUDACC__
LAMINA_GPU_FUNCTION float rsqrt(float x) { return ::rsqrtf(x); }
LAMINA_GPU_FUNCTION double rsqrt(double x) { return ::rsqrt(x); }
LAMINA_GPU_FUNCTION float infinity() { return __int_as_float(0x7f800000); }
#else
inline float rsqrt(float x) { return 1 / ::sqrtf(x); }
inline double rsqrt(double x) { return 1 / ::sqrt(x); }
inline float infinity() { return std::numeric_limits<float>::infinity(); }
#endif

}  // namespace lamina::cuda::gpu
