// The instructions of maps for one number, with the names that runtime/map/functions.def uses.
// Products and sums are rounded apart: a fused chain has the bits of its ops one by one.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "backends/cuda/gpu/gpu.h"
#include "core/dtype.h"
#include "runtime/map/functions.h"
#include "runtime/map/program.h"

namespace lamina::cuda {

#ifdef __CUDACC__
LAMINA_GPU_FUNCTION float rounded_sum(float a, float b) { return __fadd_rn(a, b); }
LAMINA_GPU_FUNCTION double rounded_sum(double a, double b) { return __dadd_rn(a, b); }
LAMINA_GPU_FUNCTION float rounded_product(float a, float b) { return __fmul_rn(a, b); }
LAMINA_GPU_FUNCTION double rounded_product(double a, double b) { return __dmul_rn(a, b); }
#else
template <typename T>
T rounded_sum(T a, T b) {
  return a + b;
}
template <typename T>
T rounded_product(T a, T b) {
  return a * b;
}
#endif

// Functions of floats, as simd/math.h of the CPU has them for vectors.
namespace map_functions {

LAMINA_GPU_FUNCTION float splat(float x) { return x; }
LAMINA_GPU_FUNCTION float max(float a, float b) { return a > b ? a : b; }
LAMINA_GPU_FUNCTION float abs(float x) { return ::fabsf(x); }
LAMINA_GPU_FUNCTION float exp(float x) { return ::expf(x); }
LAMINA_GPU_FUNCTION float log(float x) { return ::logf(x); }
LAMINA_GPU_FUNCTION float sqrt(float x) { return ::sqrtf(x); }
LAMINA_GPU_FUNCTION float reciprocal(float x) { return 1.0f / x; }
LAMINA_GPU_FUNCTION float tanh(float x) { return ::tanhf(x); }
LAMINA_GPU_FUNCTION float erf(float x) { return ::erff(x); }
LAMINA_GPU_FUNCTION float floor(float x) { return ::floorf(x); }
LAMINA_GPU_FUNCTION float round_to_even(float x) { return ::rintf(x); }
LAMINA_GPU_FUNCTION float log1p(float x) { return ::log1pf(x); }
LAMINA_GPU_FUNCTION float expm1(float x) { return ::expm1f(x); }
LAMINA_GPU_FUNCTION float softplus(float x) { return max(0.0f, x) + ::log1pf(::expf(-::fabsf(x))); }
LAMINA_GPU_FUNCTION float sigmoid(float x) {
  const float e = ::expf(-::fabsf(x));
  return (x < 0 ? e : 1.0f) / (1.0f + e);
}
LAMINA_GPU_FUNCTION float silu(float x) { return x * sigmoid(x); }
LAMINA_GPU_FUNCTION float gelu(float x) {
  return 0.5f * x * (1.0f + ::erff(x * 0.70710678118654752f));
}
// (1 + tanh(u)) / 2 = sigmoid(2 u), which also keeps the digits of results near 0.
LAMINA_GPU_FUNCTION float gelu_tanh(float x) {
  return x * sigmoid(1.59576912160573072f * x * (1.0f + 0.044715f * x * x));
}
struct SinCos {
  float sin, cos;
};
LAMINA_GPU_FUNCTION SinCos sin_cos(float x) { return {::sinf(x), ::cosf(x)}; }

template <MapOp kOp>
LAMINA_GPU_FUNCTION float apply([[maybe_unused]] float x) {
#define LAMINA_MAP_FUNCTION(name, f32, f64) \
  if constexpr (kOp == MapOp::name) return f32;
#include "runtime/map/functions.def"
}
template <MapOp kOp>
LAMINA_GPU_FUNCTION double apply([[maybe_unused]] double x) {
#define LAMINA_MAP_FUNCTION(name, f32, f64) \
  if constexpr (kOp == MapOp::name) return f64;
#include "runtime/map/functions.def"
}

}  // namespace map_functions

template <typename T>
LAMINA_GPU_FUNCTION bool is_nan(T x) {
  return x != x;
}

// Signed arithmetic that wraps, computed on unsigned numbers.
template <typename T>
LAMINA_GPU_FUNCTION std::make_unsigned_t<T> unsigned_of(T x) {
  return static_cast<std::make_unsigned_t<T>>(x);
}
template <typename T>
LAMINA_GPU_FUNCTION int shift_places(T by) {
  return static_cast<int>(unsigned_of(by) % (8 * sizeof(T)));
}
template <typename T>
LAMINA_GPU_FUNCTION T floor_divide(T a, T b) {
  if (b == 0) return 0;
  if (b == -1) return static_cast<T>(0 - unsigned_of(a));
  const T q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}

// Instructions with a result of the type of their sources.
template <MapOp kOp, typename T>
LAMINA_GPU_FUNCTION T map_floating(T a, [[maybe_unused]] T b) {
  if constexpr (kOp == MapOp::add || kOp == MapOp::add_imm)
    return rounded_sum(a, b);
  else if constexpr (kOp == MapOp::sub)
    return rounded_sum(a, -b);
  else if constexpr (kOp == MapOp::mul || kOp == MapOp::mul_imm)
    return rounded_product(a, b);
  else if constexpr (kOp == MapOp::div)
    return a / b;
  else if constexpr (kOp == MapOp::max)
    return is_nan(a) ? a : is_nan(b) ? b : a > b ? a : b;
  else if constexpr (kOp == MapOp::min)
    return is_nan(a) ? a : is_nan(b) ? b : a < b ? a : b;
  else if constexpr (kOp == MapOp::pow)
    return std::pow(a, b);
  else if constexpr (kOp == MapOp::square)
    return rounded_product(a, a);
  else
    return map_functions::apply<kOp>(a);
}

template <MapOp kOp, typename T>
LAMINA_GPU_FUNCTION T map_integer(T a, [[maybe_unused]] T b) {
  if constexpr (kOp == MapOp::neg)
    return static_cast<T>(0 - unsigned_of(a));
  else if constexpr (kOp == MapOp::abs)
    return a < 0 ? static_cast<T>(0 - unsigned_of(a)) : a;
  else if constexpr (kOp == MapOp::square)
    return static_cast<T>(unsigned_of(a) * unsigned_of(a));
  else if constexpr (kOp == MapOp::relu)
    return a < 0 ? T{0} : a;
  else if constexpr (kOp == MapOp::add || kOp == MapOp::add_imm)
    return static_cast<T>(unsigned_of(a) + unsigned_of(b));
  else if constexpr (kOp == MapOp::sub)
    return static_cast<T>(unsigned_of(a) - unsigned_of(b));
  else if constexpr (kOp == MapOp::mul || kOp == MapOp::mul_imm)
    return static_cast<T>(unsigned_of(a) * unsigned_of(b));
  else if constexpr (kOp == MapOp::max)
    return a > b ? a : b;
  else if constexpr (kOp == MapOp::min)
    return a < b ? a : b;
  else if constexpr (kOp == MapOp::floordiv)
    return floor_divide(a, b);
  else if constexpr (kOp == MapOp::bit_and)
    return a & b;
  else if constexpr (kOp == MapOp::bit_or)
    return a | b;
  else if constexpr (kOp == MapOp::bit_xor)
    return a ^ b;
  else if constexpr (kOp == MapOp::shift_left)
    return static_cast<T>(unsigned_of(a) << shift_places(b));
  else
    return a >> shift_places(b);
}

template <typename Integer>
inline constexpr Integer kLeastOf = std::numeric_limits<Integer>::min();
template <typename Integer>
inline constexpr Integer kLargestOf = std::numeric_limits<Integer>::max();

// Converts a floating number to an integer type: rounds toward zero, saturates, and returns 0 for
// NaN.
template <typename Integer, typename Float>
LAMINA_GPU_FUNCTION Integer saturate(Float x) {
  constexpr Integer kLeast = kLeastOf<Integer>, kLargest = kLargestOf<Integer>;
  const double wide = static_cast<double>(x);
  if (is_nan(wide)) return 0;
  if (wide <= static_cast<double>(kLeast)) return kLeast;
  if (wide >= static_cast<double>(kLargest)) return kLargest;
  return static_cast<Integer>(wide);
}

// Returns x as a number of type To; integers wrap.
template <typename To, typename From>
LAMINA_GPU_FUNCTION To map_cast(From x) {
  if constexpr (std::is_same_v<To, bool>)
    return x != 0;
  else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>)
    return saturate<To>(x);
  else
    return static_cast<To>(x);
}

}  // namespace lamina::cuda
