// Rope for one instruction set.
#include "backends/cpu/rope/rope.h"
#include "backends/cpu/simd/math.h"
#include "backends/cpu/simd/memory.h"

namespace lamina::cpu {
namespace {

void fill_table(const RopeTable& p, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = p.num_frequencies;
  const Float factor = splat(p.attention_factor);
  for (std::int64_t token = begin; token < end; ++token) {
    for_lanes(n, [&](std::int64_t i, int count) {
      Float position = splat(static_cast<float>(p.positions[token]));
      if (p.axis_of_frequency != nullptr) {
        float lanes[kLanes] = {};
        for (int k = 0; k < count; ++k)
          lanes[k] =
              static_cast<float>(p.positions[p.axis_of_frequency[i + k] * p.num_tokens + token]);
        position = load(lanes);
      }
      const SinCos angle = sin_cos(position * load_some(p.inv_freq + i, count));
      store_some(p.cos + token * n + i, angle.cos * factor, count);
      store_some(p.sin + token * n + i, angle.sin * factor, count);
    });
  }
}

template <typename T>
void rotate_half_split(const T* x, T* y, const float* cosines, const float* sines, Float sign,
                       std::int64_t half) {
  for_lanes(half, [&](std::int64_t i, int count) {
    const Float c = load_some(cosines + i, count);
    const Float s = load_some(sines + i, count) * sign;
    const Float a = load_some(x + i, count);
    const Float b = load_some(x + half + i, count);
    store_some(y + i, fma(a, c, -(b * s)), count);
    store_some(y + half + i, fma(b, c, a * s), count);
  });
}

template <typename T>
void rotate_interleaved(const T* x, T* y, const float* cosines, const float* sines, Float sign,
                        std::int64_t half) {
  using Eight = Vec<float, 8>;
  const Int even = (lane_numbers() & splat<Int>(1)) == splat<Int>(0);
  const Float signs = select(even, -sign, sign);  // x_even c - x_odd s, x_odd c + x_even s
  std::int64_t i = 0;
  for (; i + 8 <= half; i += 8) {
    const Float c = duplicate_lanes(load_raw<Eight>(cosines + i));
    const Float s = duplicate_lanes(load_raw<Eight>(sines + i)) * signs;
    const Float a = load(x + 2 * i);
    store(y + 2 * i, fma(a, c, swap_neighbours(a) * s));
  }
  if (i < half) {
    const std::int64_t rest = half - i;
    float c[8] = {}, s[8] = {};
    for (std::int64_t k = 0; k < rest; ++k) {
      c[k] = cosines[i + k];
      s[k] = sines[i + k];
    }
    const Float a = load_partial(x + 2 * i, 2 * rest);
    const Float swapped = swap_neighbours(a) * (duplicate_lanes(load_raw<Eight>(s)) * signs);
    store_partial(y + 2 * i, fma(a, duplicate_lanes(load_raw<Eight>(c)), swapped), 2 * rest);
  }
}

void rotate_double(const RopeApply& p, const double* x, double* y, const float* cosines,
                   const float* sines, double sign) {
  const std::int64_t half = p.rotary_dim / 2;
  const bool split = p.pairs == RopePairs::half_split;
  for (std::int64_t i = 0; i < half; ++i) {
    const std::int64_t first = split ? i : 2 * i;
    const std::int64_t second = split ? i + half : 2 * i + 1;
    const double c = static_cast<double>(cosines[i]);
    const double s = static_cast<double>(sines[i]) * sign;
    const double a = x[first], b = x[second];
    y[first] = a * c - b * s;
    y[second] = b * c + a * s;
  }
}

template <typename T>
void apply_to_heads(const RopeApply& p, std::int64_t begin, std::int64_t end) {
  const std::int64_t half = p.rotary_dim / 2;
  const float sign = p.inverse ? -1.0f : 1.0f;
  for (std::int64_t token = begin; token < end; ++token) {
    const float* cosines = p.cos + token * half;
    const float* sines = p.sin + token * half;
    for (std::int64_t head = 0; head < p.num_heads; ++head) {
      const std::int64_t first = (token * p.num_heads + head) * p.head_dim;
      const T* x = static_cast<const T*>(p.x) + first;
      T* y = static_cast<T*>(p.y) + first;
      if (x != y)
        for (std::int64_t i = p.rotary_dim; i < p.head_dim; ++i) y[i] = x[i];
      if constexpr (sizeof(T) == 8)
        rotate_double(p, x, y, cosines, sines, static_cast<double>(sign));
      else if (p.pairs == RopePairs::half_split)
        rotate_half_split(x, y, cosines, sines, splat(sign), half);
      else
        rotate_interleaved(x, y, cosines, sines, splat(sign), half);
    }
  }
}

void apply(const RopeApply& p, std::int64_t begin, std::int64_t end) {
  if (p.dtype == DType::f32) return apply_to_heads<float>(p, begin, end);
  if (p.dtype == DType::bf16) return apply_to_heads<bfloat16>(p, begin, end);
  apply_to_heads<double>(p, begin, end);
}

constexpr RopeFunctions kFunctions = {.table = fill_table, .apply = apply};

}  // namespace

constinit const RopeFunctions RopeFunctions::LAMINA_ISA = kFunctions;

}  // namespace lamina::cpu
