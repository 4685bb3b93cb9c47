// Softmax for one instruction set.
#include "backends/cpu/simd/math.h"
#include "backends/cpu/simd/memory.h"
#include "backends/cpu/softmax/softmax.h"

namespace lamina::cpu {
namespace {

// Sets lanes from `count` on to `value`.
LAMINA_SIMD Float with_rest(Float x, int count, float value) {
  return count == kLanes ? x : select(lane_numbers() < splat<Int>(count), x, splat(value));
}

template <typename T>
void rows_of(const Softmax& p, std::int64_t begin, std::int64_t end) {
  const float none = -__builtin_inff();
  for (std::int64_t row = begin; row < end; ++row) {
    const T* x = static_cast<const T*>(p.x) + row * p.width;
    T* y = static_cast<T*>(p.y) + row * p.width;
    Float largest = splat(none);
    for_lanes(p.width, [&](std::int64_t i, int count) {
      largest = max(largest, with_rest(load_some(x + i, count), count, none));
    });
    const float best = max_lanes(largest);
    const Float shift = splat(best == none ? 0.0f : best);
    Float sums[2] = {splat(0.0f), splat(0.0f)};
    for_lanes(p.width, [&](std::int64_t i, int count) {
      Float& sum = sums[i / kLanes % 2];
      sum = sum + with_rest(exp(load_some(x + i, count) - shift), count, 0.0f);
    });
    const float sum = sum_lanes(sums[0] + sums[1]);
    const Float scale = splat(sum == 0.0f ? 0.0f : 1.0f / sum);
    for_lanes(p.width, [&](std::int64_t i, int count) {
      store_some(y + i, exp(load_some(x + i, count) - shift) * scale, count);
    });
  }
}

void rows(const Softmax& p, std::int64_t begin, std::int64_t end) {
  if (p.dtype == DType::f32) return rows_of<float>(p, begin, end);
  rows_of<bfloat16>(p, begin, end);
}
constexpr SoftmaxFunctions kFunctions = {.rows = rows};

}  // namespace

constinit const SoftmaxFunctions SoftmaxFunctions::LAMINA_ISA = kFunctions;

}  // namespace lamina::cpu
