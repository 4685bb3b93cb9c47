// Optimizer steps for one instruction set.
#include "backends/cpu/optimizer/optimizer_simd.h"
#include "backends/cpu/simd/memory.h"

namespace lamina::cpu {
namespace {

void adamw(float* p, const float* g, float* m, float* v, bfloat16* p_bf16, std::int64_t n,
           const AdamWNumbers& a) {
  for_lanes(n, [&](std::int64_t i, int count) {
    const Float gradient =
        g != nullptr ? load_some(g + i, count) * splat(a.grad_scale) : splat(0.0f);
    const Float m1 = fma(load_some(m + i, count), splat(a.beta1), gradient * splat(a.rest1));
    const Float v1 =
        fma(load_some(v + i, count), splat(a.beta2), gradient * gradient * splat(a.rest2));
    const Float divisor = fma(sqrt(v1), splat(a.root_scale), splat(a.eps));
    const Float old = load_some(p + i, count) * splat(a.decay);
    const Float p1 = old - splat(a.step_size) * (m1 / divisor);
    store_some(m + i, m1, count);
    store_some(v + i, v1, count);
    store_some(p + i, p1, count);
    if (p_bf16 != nullptr) store_some(p_bf16 + i, p1, count);
  });
}

void sgd(float* p, const float* g, float* m, bfloat16* p_bf16, std::int64_t n,
         const SgdNumbers& s) {
  for_lanes(n, [&](std::int64_t i, int count) {
    const Float old = load_some(p + i, count);
    const Float gradient =
        fma(old, splat(s.weight_decay), load_some(g + i, count) * splat(s.grad_scale));
    Float direction = gradient;
    if (m != nullptr) {
      const Float m1 = fma(load_some(m + i, count), splat(s.momentum), gradient);
      store_some(m + i, m1, count);
      direction = s.nesterov ? fma(m1, splat(s.momentum), gradient) : m1;
    }
    const Float p1 = old - splat(s.lr) * direction;
    store_some(p + i, p1, count);
    if (p_bf16 != nullptr) store_some(p_bf16 + i, p1, count);
  });
}

double sum_of_squares_of(const float* x, std::int64_t n) {
  Double sums = splat<Double>(0);
  for_lanes(n, [&](std::int64_t i, int count) {
    const Double wide = convert<Double>(load_some(x + i, count));
    sums = fma(wide, wide, sums);
  });
  return sum_lanes(sums);
}

// All exponent bits set: an infinity or a NaN.
LAMINA_SIMD Int is_non_finite(Float x) {
  const Int exponent = splat<Int>(0x7f800000);
  return (bits_as<Int>(x) & exponent) == exponent;
}

template <typename T>
std::int64_t first_non_finite_of(const T* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; i += kLanes) {
    const int count = i + kLanes <= n ? kLanes : static_cast<int>(n - i);
    const Int bad = is_non_finite(load_some(x + i, count));
    if (!any(bad)) continue;
    std::int32_t lanes[kLanes];
    store_raw(lanes, bad);
    for (int k = 0; k < count; ++k)
      if (lanes[k] != 0) return i + k;
  }
  return -1;
}

template <typename T>
void add_scaled_to(float* y, const T* x, float scale, std::int64_t n) {
  for_lanes(n, [&](std::int64_t i, int count) {
    store_some(y + i, fma(load_some(x + i, count), splat(scale), load_some(y + i, count)), count);
  });
}

void scale_range(float* x, float scale, std::int64_t n) {
  for_lanes(n, [&](std::int64_t i, int count) {
    store_some(x + i, load_some(x + i, count) * splat(scale), count);
  });
}

constexpr OptimizerFunctions kFunctions = {
    .adamw = adamw,
    .sgd = sgd,
    .sum_of_squares = sum_of_squares_of,
    .first_non_finite_f32 = first_non_finite_of<float>,
    .first_non_finite_bf16 = first_non_finite_of<bfloat16>,
    .add_scaled_f32 = add_scaled_to<float>,
    .add_scaled_bf16 = add_scaled_to<bfloat16>,
    .scale = scale_range,
};

}  // namespace

constinit const OptimizerFunctions OptimizerFunctions::LAMINA_ISA = kFunctions;

}  // namespace lamina::cpu
