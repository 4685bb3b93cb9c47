// Optimizer steps for one instruction set.
#include "backends/cpu/optimizer/optimizer.h"
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

double sum_of_squares_of(const float* x, std::int64_t n) {
  Double sums = splat<Double>(0);
  for_lanes(n, [&](std::int64_t i, int count) {
    const Double wide = convert<Double>(load_some(x + i, count));
    sums = fma(wide, wide, sums);
  });
  return sum_lanes(sums);
}

constexpr OptimizerFunctions kFunctions = {
    .adamw = adamw,
    .sum_of_squares = sum_of_squares_of,
};

}  // namespace

constinit const OptimizerFunctions OptimizerFunctions::LAMINA_ISA = kFunctions;

}  // namespace lamina::cpu
