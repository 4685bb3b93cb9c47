// Code shared by the tests of the vector kernels: available instruction sets, numbers, rounding.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "backends/cpu/threads/isa.h"
#include "backends/cpu/threads/threads.h"
#include "core/float16.h"

namespace lamina::cpu {

// Runs check() with each instruction set of this machine.
template <typename Check>
void for_each_isa(const Check& check) {
  for (Isa isa : {Isa::portable, Isa::avx2, Isa::avx512}) {
    if (isa > best_isa()) break;
    const ScopedIsa scoped(isa);
    SCOPED_TRACE(std::string(name(isa)));
    check();
  }
}

// Runs make(), which returns comparable results, with 1, 2 and 3 threads: they must be equal.
template <typename Make>
void expect_same_for_any_threads(const Make& make) {
  set_threads(1, false);
  const auto alone = make();
  for (int threads : {2, 3}) {
    set_threads(threads, false);
    EXPECT_TRUE(alone == make()) << "with " << threads << " threads";
  }
  set_threads(2, false);
}

inline std::vector<float> normal_floats(std::size_t n, unsigned seed, float scale = 1.0f) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(n);
  for (float& value : values) value = scale * normal(engine);
  return values;
}

// Conversions by value, for loops over T = float or bfloat16.
inline double number(float x) { return static_cast<double>(x); }
inline double number(double x) { return x; }
inline double number(bfloat16 x) { return static_cast<double>(to_float(x)); }
template <typename T>
T as(double x) {
  if constexpr (std::is_same_v<T, bfloat16>)
    return to_bfloat16(static_cast<float>(x));
  else
    return static_cast<T>(x);
}
template <typename T>
std::vector<T> as(const std::vector<float>& values) {
  std::vector<T> result;
  for (float value : values) result.push_back(as<T>(static_cast<double>(value)));
  return result;
}
template <typename T>
T rounded(double x) {
  return as<T>(x);
}

// |got - want| in units in the last place of f32 at `want`; 0 for equal infinities and two NaNs.
inline double ulps(float got, double want) {
  if (std::isnan(want)) return std::isnan(got) ? 0 : INFINITY;
  const float nearest = static_cast<float>(want);
  if (got == nearest) return 0;
  if (std::isinf(nearest) || std::isinf(got) || std::isnan(got)) {
    // An overflow within one rounding counts as 1.
    return std::abs(static_cast<double>(got)) > 3.4028e38 &&
                   std::abs(static_cast<double>(nearest)) > 3.4028e38 &&
                   std::signbit(got) == std::signbit(nearest)
               ? 1
               : INFINITY;
  }
  int exponent;
  std::frexp(want, &exponent);
  const double ulp = std::ldexp(1.0, std::max(exponent - 24, -149));
  return std::abs(static_cast<double>(got) - want) / ulp;
}

}  // namespace lamina::cpu
