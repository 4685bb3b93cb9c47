// Softmax for one instruction set.
#include "backends/cpu/softmax/softmax_simd.h"
#include "backends/cpu/simd/math.h"
#include "backends/cpu/simd/memory.h"

namespace lamina::cpu {
namespace {

// Lanes from `count` on become `value`.
LAMINA_SIMD Float with_rest(Float x, int count, float value) {
  return count == kLanes ? x : select(lane_numbers() < splat<Int>(count), x, splat(value));
}

template <typename T>
void forward_rows(const SoftmaxForward& p, std::int64_t begin, std::int64_t end) {
  const float none = -__builtin_inff();
  for (std::int64_t row = begin; row < end; ++row) {
    const T* x = static_cast<const T*>(p.x) + row * p.x_stride;
    T* y = static_cast<T*>(p.y) + row * p.y_stride;
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
    if (p.log) {
      const Float lse = shift + log(splat(sum));
      for_lanes(p.width, [&](std::int64_t i, int count) {
        const Float v = load_some(x + i, count);
        // Of a row of -infinities lse is -infinity too, and the difference would be NaN.
        store_some(y + i, select(v == splat(none), v, v - lse), count);
      });
    } else {
      const Float scale = splat(sum == 0.0f ? 0.0f : 1.0f / sum);
      for_lanes(p.width, [&](std::int64_t i, int count) {
        store_some(y + i, exp(load_some(x + i, count) - shift) * scale, count);
      });
    }
  }
}

template <typename T>
void backward_rows(const SoftmaxBackward& p, std::int64_t begin, std::int64_t end) {
  for (std::int64_t row = begin; row < end; ++row) {
    const T* y = static_cast<const T*>(p.y) + row * p.y_stride;
    const T* dy = static_cast<const T*>(p.dy) + row * p.dy_stride;
    T* dx = static_cast<T*>(p.dx) + row * p.dx_stride;
    Float sums[2] = {splat(0.0f), splat(0.0f)};
    for_lanes(p.width, [&](std::int64_t i, int count) {
      Float& sum = sums[i / kLanes % 2];
      const Float d = load_some(dy + i, count);
      sum = p.log ? sum + d : fma(d, load_some(y + i, count), sum);
    });
    const Float total = splat(sum_lanes(sums[0] + sums[1]));
    for_lanes(p.width, [&](std::int64_t i, int count) {
      const Float v = load_some(y + i, count);
      const Float d = load_some(dy + i, count);
      store_some(dx + i, p.log ? d - exp(v) * total : v * (d - total), count);
    });
  }
}

void forward(const SoftmaxForward& p, std::int64_t begin, std::int64_t end) {
  if (p.dtype == DType::f32) return forward_rows<float>(p, begin, end);
  forward_rows<bfloat16>(p, begin, end);
}
void backward(const SoftmaxBackward& p, std::int64_t begin, std::int64_t end) {
  if (p.dtype == DType::f32) return backward_rows<float>(p, begin, end);
  backward_rows<bfloat16>(p, begin, end);
}

constexpr SoftmaxFunctions kFunctions = {.forward = forward, .backward = backward};

}  // namespace

constinit const SoftmaxFunctions SoftmaxFunctions::LAMINA_ISA = kFunctions;

}  // namespace lamina::cpu
