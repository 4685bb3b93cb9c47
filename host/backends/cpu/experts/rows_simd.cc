// Combines rows, for one instruction set.
#include "backends/cpu/experts/rows.h"
#include "backends/cpu/simd/memory.h"

namespace lamina::cpu {
namespace {

template <typename T>
void combine_of(const CombineRows& p, std::int64_t begin, std::int64_t end) {
  const T* x = static_cast<const T*>(p.x);
  for (std::int64_t m = begin; m < end; ++m) {
    const std::int32_t* places = p.places + m * p.k;
    const float* weights = p.weights + m * p.k;
    T* y = static_cast<T*>(p.y) + m * p.width;
    for_lanes(p.width, [&](std::int64_t i, int count) {
      Float sum = splat(0.0f);
      for (std::int64_t j = 0; j < p.k; ++j)
        sum = fma(load_some(x + places[j] * p.width + i, count), splat(weights[j]), sum);
      store_some(y + i, sum, count);
    });
  }
}

template <typename T>
void combine_grad_of(const CombineRowsGrad& p, std::int64_t begin, std::int64_t end) {
  for (std::int64_t r = begin; r < end; ++r) {
    const std::int64_t assignment = p.order[r];
    if (assignment < 0 || assignment >= p.num_rows) continue;  // never from group_rows
    const T* x = static_cast<const T*>(p.x) + r * p.width;
    const T* dy = static_cast<const T*>(p.dy) + assignment / p.k * p.width;
    T* dx = static_cast<T*>(p.dx) + r * p.width;
    const Float weight = splat(p.weights[assignment]);
    Float sum = splat(0.0f);
    for_lanes(p.width, [&](std::int64_t i, int count) {
      const Float gradient = load_some(dy + i, count);
      sum = fma(load_some(x + i, count), gradient, sum);
      store_some(dx + i, gradient * weight, count);
    });
    if (p.dweights != nullptr) p.dweights[assignment] = sum_lanes(sum);
  }
}

void combine_some(const CombineRows& p, std::int64_t begin, std::int64_t end) {
  (p.dtype == DType::bf16 ? combine_of<bfloat16> : combine_of<float>)(p, begin, end);
}
void combine_grad_some(const CombineRowsGrad& p, std::int64_t begin, std::int64_t end) {
  (p.dtype == DType::bf16 ? combine_grad_of<bfloat16> : combine_grad_of<float>)(p, begin, end);
}

constexpr RowsFunctions kFunctions = {.combine = combine_some, .combine_grad = combine_grad_some};

}  // namespace

constinit const RowsFunctions RowsFunctions::LAMINA_ISA = kFunctions;

}  // namespace lamina::cpu
