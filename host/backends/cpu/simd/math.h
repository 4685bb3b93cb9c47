// Elementary functions of sixteen f32 lanes: at most 2 ulp of error (sin and cos: 1), also for
// infinities, NaNs and subnormal numbers. Range reduction and polynomials (Chebyshev fits) are our
// own.
#pragma once

#include "backends/cpu/simd/simd.h"

namespace lamina::cpu {
namespace {

// c[0] + x (c[1] + x (c[2] + ...)).
template <int N>
LAMINA_SIMD Float polynomial(Float x, const float (&c)[N]) {
  Float y = splat(c[N - 1]);
  for (int i = N - 2; i >= 0; --i) y = fma(y, x, splat(c[i]));
  return y;
}
template <int N>
LAMINA_SIMD Double polynomial(Double x, const double (&c)[N]) {
  Double y = splat<Double>(c[N - 1]);
  for (int i = N - 2; i >= 0; --i) y = fma(y, x, splat<Double>(c[i]));
  return y;
}

// The first constant has few bits, so that its product with a small integer is exact.
constexpr float kLn2High = 0.693359375f;
constexpr float kLn2Low = -2.12194440e-4f;

LAMINA_SIMD Float exp(Float x) {
  static constexpr float c[] = {0.5f, 0.16666573381900846f, 0.041666550110305124f,
                                0.0083637738744055735f, 0.0013926926614021906f};
  // Beyond these the result is infinite or zero; a NaN passes through.
  const Float y = min(splat(89.0f), max(splat(-104.0f), x));
  // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
  const Float shifted = fma(y, splat(1.44269504f), splat(12582912.0f));
  const Float n = shifted - splat(12582912.0f);
  Float r = fma(n, splat(-kLn2High), y);
  r = fma(n, splat(-kLn2Low), r);
  const Float p = fma(r * r, polynomial(r, c), r) + splat(1.0f);
#if defined(__AVX512F__)
  return {_mm512_scalef_ps(p.raw, n.raw)};
#else
  // Two factors, because 2^n itself may not be a number: p * 2^a is exact, so there is one
  // rounding.
  const Int i = bits_as<Int>(bits_as<Words>(shifted) - splat<Words>(0x4b400000u));
  const Int a = shift_right(i, 1);
  const Float two_a = bits_as<Float>(shift_left(a + splat<Int>(127), 23));
  const Float two_b = bits_as<Float>(shift_left(i - a + splat<Int>(127), 23));
  return p * two_a * two_b;
#endif
}

LAMINA_SIMD Float log(Float x) {
  static constexpr float c[] = {
      0.33333331121880151f,  -0.24999996626939481f, 0.20000730503852239f,
      -0.16667850972851766f, 0.14248551264361469f,  -0.12424037717650197f,
      0.11689071137457869f,  -0.11494546612890219f, 0.069807019586649742f};
  const Int subnormal = x < splat(1.17549435e-38f);
  const Float y = select(subnormal, x * splat(33554432.0f), x);
  // y = 2^e m with m in [sqrt(1/2), sqrt(2)).
  const Words bits = bits_as<Words>(y);
  const Int ey = shift_right(bits_as<Int>(bits - splat<Words>(0x3f3504f3u)), 23);
  const Words m = bits - shift_left(bits_as<Words>(ey), 23);
  const Float f = bits_as<Float>(m) - splat(1.0f);
  const Float e = convert<Float>(ey) - select(subnormal, splat(25.0f), splat(0.0f));
  const Float ff = f * f;
  Float tail = f * ff * polynomial(f, c);
  tail = fma(e, splat(kLn2Low), tail);
  tail = fma(ff, splat(-0.5f), tail);
  Float r = fma(e, splat(kLn2High), f + tail);
  r = select(x == splat(__builtin_inff()), x, r);
  r = select(x == splat(0.0f), splat(-__builtin_inff()), r);
  return select(x >= splat(0.0f), r, splat(__builtin_nanf("")));
}

LAMINA_SIMD Float reciprocal(Float x) { return splat(1.0f) / x; }

// 1 / (1 + exp(-x)) without overflow and with small results kept.
LAMINA_SIMD Float sigmoid(Float x) {
  const Float e = exp(-abs(x));
  return select(x < splat(0.0f), e, splat(1.0f)) / (splat(1.0f) + e);
}

LAMINA_SIMD Float tanh(Float x) {
  static constexpr float c[] = {-0.33333328944134255f, 0.13332769736976328f, -0.053850909578513581f,
                                0.020997178999074751f, -0.0060967141659081976f};
  const Float u = abs(x);
  const Float s = x * x;
  const Float small = fma(x * s, polynomial(s, c), x);
  const Float large = splat(1.0f) - splat(2.0f) / (exp(u + u) + splat(1.0f));
  return select(u < splat(0.625f), small, copy_sign(large, x));
}

LAMINA_SIMD Float erf(Float x) {
  static constexpr float near[] = {0.12837916646478846f,   -0.37612632047127881f,
                                   0.11283669468623777f,   -0.026857959062737153f,
                                   0.0051974872266270113f, -0.00081029155609806916f,
                                   8.2041696761601189e-5f};
  // ln(1 - erf(t)) on [0.9, 4.05]; erf(4) is 1 in f32.
  static constexpr float far[] = {
      0.00031291304952441592f, -1.130206044974851f,     -0.63187063062881368f,
      -0.11003928317204915f,   0.026398146399544764f,   -0.0047514328300671157f,
      0.00059502375774537723f, -4.5839747217217604e-5f, 1.6256713762535147e-6f};
  const Float t = min(splat(4.0f), abs(x));
  const Float small = fma(x, polynomial(t * t, near), x);
  const Float large = splat(1.0f) - exp(polynomial(t, far));
  return select(t < splat(0.92f), small, copy_sign(large, x));
}

// ln(1 + e) for e in [0, 1].
LAMINA_SIMD Float log1p_of_fraction(Float e) {
  const Float u = splat(1.0f) + e;
  return log(u) + (e - (u - splat(1.0f))) / u;
}

// ln(1 + exp(x)).
LAMINA_SIMD Float softplus(Float x) {
  return max(splat(0.0f), x) + log1p_of_fraction(exp(-abs(x)));
}

LAMINA_SIMD Float floor(Float x) {
#if defined(__AVX512F__)
  return {_mm512_roundscale_ps(x.raw, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC)};
#elif defined(__AVX2__)
  return {{_mm256_floor_ps(x.lo.raw)}, {_mm256_floor_ps(x.hi.raw)}};
#else
  // From 2^23 on every number is an integer.
  const Int small = abs(x) < splat(8388608.0f);
  const Float in_range = select(small, x, splat(0.0f));
  const Float truncated = convert<Float>(convert<Int>(in_range));
  const Float down = truncated - select(truncated > in_range, splat(1.0f), splat(0.0f));
  return select(small, copy_sign(down, x), x);
#endif
}

// The nearest integer, ties to even: below 2^23 the sum has no bits for fractions.
LAMINA_SIMD Float round_to_even(Float x) {
  const Float magic = splat(8388608.0f);
  const Float u = abs(x);
  return select(u < magic, copy_sign((u + magic) - magic, x), x);
}

// Returns ln(1 + x). Adds to the logarithm the part that 1 + x rounds away; Goldberg 1991, theorem
// 4.
LAMINA_SIMD Float log1p(Float x) {
  const Float u = splat(1.0f) + x;
  const Float lost = (x - (u - splat(1.0f))) / u;
  const Int ends = (u == splat(0.0f)) | (u == splat(__builtin_inff()));
  return log(u) + select(ends, splat(0.0f), lost);
}

// Returns exp(x) - 1, by a polynomial near 0, where the difference would lose all digits.
LAMINA_SIMD Float expm1(Float x) {
  static constexpr float c[] = {0.5f,          0.16666667f,    0.041666668f,  0.0083333338f,
                                0.0013888889f, 0.00019841270f, 2.4801587e-5f, 2.7557319e-6f};
  const Float small = fma(x * x, polynomial(x, c), x);
  return select(abs(x) < splat(0.5f), small, exp(x) - splat(1.0f));
}

// Lane by lane in f64: few formulas are right for every pair of numbers.
LAMINA_SIMD Float pow(Float a, Float b) {
  float x[kLanes], y[kLanes];
  store_raw(x, a);
  store_raw(y, b);
  for (int i = 0; i < kLanes; ++i)
    x[i] = static_cast<float>(__builtin_pow(static_cast<double>(x[i]), static_cast<double>(y[i])));
  return load_raw<Float>(x);
}

struct SinCos {
  Float sin, cos;
};

// Computed in f64, so that the result is right for every angle that f32 can represent.
LAMINA_SIMD SinCos sin_cos(Float x) {
  static constexpr double s[] = {-0.16666666666663858, 0.0083333333310611601,
                                 -0.00019841266899437399, 2.7555985625200862e-6,
                                 -2.4805145406747432e-8};
  static constexpr double c[] = {0.041666666666664659, -0.0013888888887264426,
                                 2.4801585198441217e-5, -2.7556365902259021e-7,
                                 2.0700249467562772e-9};
  const Double wide = convert<Double>(x);
  const Double magic = splat<Double>(6755399441055744.0);  // 1.5 * 2^52
  const Double shifted = wide * splat<Double>(0.63661977236758134308) + magic;
  const Double n = shifted - magic;
  // pi/2 in two parts; the first has 33 bits, so n times it is exact up to 2^20.
  Double r = wide - n * splat<Double>(1.57079632673412561417);
  r = r - n * splat<Double>(6.07710050650619224932e-11);
  const Double u = r * r;
  const Double sine = fma(r * u, polynomial(u, s), r);
  const Double cosine =
      fma(u * u, polynomial(u, c), fma(u, splat<Double>(-0.5), splat<Double>(1.0)));
  const Long quadrant = bits_as<Long>(shifted);
  const Long odd = (quadrant & splat<Long>(1)) == splat<Long>(1);
  const Long half_turn = shift_left(quadrant & splat<Long>(2), 62);
  const Long cos_sign = shift_left((quadrant + splat<Long>(1)) & splat<Long>(2), 62);
  SinCos result = {
      convert<Float>(bits_as<Double>(bits_as<Long>(select(odd, cosine, sine)) ^ half_turn)),
      convert<Float>(bits_as<Double>(bits_as<Long>(select(odd, sine, cosine)) ^ cos_sign))};
  const Int hard = abs(x) < splat(1.0e6f);
  const Int too_large = hard == splat<Int>(0);
  if (any(too_large)) {
    float lanes[kLanes], sines[kLanes], cosines[kLanes];
    store_raw(lanes, x);
    store_raw(sines, result.sin);
    store_raw(cosines, result.cos);
    for (int i = 0; i < kLanes; ++i) {
      if (__builtin_fabsf(lanes[i]) < 1.0e6f) continue;
      sines[i] = static_cast<float>(__builtin_sin(static_cast<double>(lanes[i])));
      cosines[i] = static_cast<float>(__builtin_cos(static_cast<double>(lanes[i])));
    }
    result = {load_raw<Float>(sines), load_raw<Float>(cosines)};
  }
  // sin(-0) is -0.
  result.sin = select(x == splat(0.0f), x, result.sin);
  return result;
}

LAMINA_SIMD Float silu(Float x) { return x * sigmoid(x); }
// x' = s (1 + x (1 - s)), s = sigmoid(x).
LAMINA_SIMD Float silu_grad(Float x) {
  const Float s = sigmoid(x);
  return s * fma(x, splat(1.0f) - s, splat(1.0f));
}

constexpr float kSqrtHalf = 0.70710678118654752f;
constexpr float kSqrt2OverPi = 0.79788456080286536f;
constexpr float kGeluCubic = 0.044715f;

LAMINA_SIMD Float gelu(Float x) {
  return splat(0.5f) * x * (splat(1.0f) + erf(x * splat(kSqrtHalf)));
}
// (1 + tanh(u)) / 2 = sigmoid(2 u), which also keeps the digits of results near 0.
LAMINA_SIMD Float gelu_tanh(Float x) {
  return x * sigmoid(splat(2 * kSqrt2OverPi) * x * fma(x * x, splat(kGeluCubic), splat(1.0f)));
}

}  // namespace
}  // namespace lamina::cpu
