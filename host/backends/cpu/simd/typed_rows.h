// Rows of f32 or bf16 numbers whose type is known at run time, for kernels that compute in f32
// copies of them. Included by *_simd.cc only, like simd.h.
#pragma once

#include <cstring>

#include "backends/cpu/simd/memory.h"
#include "core/dtype.h"

namespace lamina::cpu {
namespace {

// Element i. dtype is f32 or bf16, here and below.
inline float number_at(const void* data, DType dtype, std::int64_t i) {
  if (dtype == DType::f32) return static_cast<const float*>(data)[i];
  return widen(static_cast<const std::uint16_t*>(data)[i]);
}

inline void set_number(void* data, DType dtype, std::int64_t i, float value) {
  if (dtype == DType::f32)
    static_cast<float*>(data)[i] = value;
  else
    store_partial(static_cast<bfloat16*>(data) + i, splat(value), 1);
}

// to[0, n) = elements [first, first + n), to[n, padded) = 0.
inline void load_row(const void* data, DType dtype, std::int64_t first, std::int64_t n,
                     std::int64_t padded, float* to) {
  const auto copy = [&](const auto* from) {
    for_lanes(n, [&](std::int64_t i, int count) { store(to + i, load_some(from + i, count)); });
  };
  if (dtype == DType::f32)
    copy(static_cast<const float*>(data) + first);
  else
    copy(static_cast<const bfloat16*>(data) + first);
  for (std::int64_t i = (n + kLanes - 1) / kLanes * kLanes; i < padded; i += kLanes)
    store(to + i, splat(0.0f));
}

inline void store_row(void* data, DType dtype, std::int64_t first, std::int64_t n,
                      const float* from) {
  const auto copy = [&](auto* to) {
    for_lanes(n, [&](std::int64_t i, int count) { store_some(to + i, load(from + i), count); });
  };
  if (dtype == DType::f32)
    copy(static_cast<float*>(data) + first);
  else
    copy(static_cast<bfloat16*>(data) + first);
}

}  // namespace
}  // namespace lamina::cpu
