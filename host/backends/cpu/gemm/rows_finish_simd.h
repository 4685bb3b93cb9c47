// Finishes the sums of products with few rows. Internal to each file that includes it.
#pragma once

#include <cstring>

#include "backends/cpu/gemm/gemv.h"
#include "backends/cpu/simd/simd.h"

namespace lamina::cpu {
namespace {

constexpr std::int64_t kBlockRows = 64;  // outputs kept as f32 until the epilogue

inline void add_values(const void* values, std::int64_t at, bool bf16, std::int64_t count,
                       float* sums) {
  if (bf16) {
    const auto* p = static_cast<const std::uint16_t*>(values) + at;
    for (std::int64_t j = 0; j < count; ++j) sums[j] += widen(p[j]);
  } else {
    const auto* p = static_cast<const float*>(values) + at;
    for (std::int64_t j = 0; j < count; ++j) sums[j] += p[j];
  }
}

// Writes out[i, begin ..] from the f32 sums of row i.
inline void finish_row(const RowsArguments& a, std::int64_t i, std::int64_t begin,
                       std::int64_t count, float* sums) {
  if (a.bias != nullptr) add_values(a.bias, begin, a.bf16_bias, count, sums);
  if (a.addend != nullptr) add_values(a.addend, i * a.ldo + begin, a.bf16_out, count, sums);
  if (a.bf16_out) {
    auto* out = static_cast<std::uint16_t*>(a.out) + i * a.ldo + begin;
    for (std::int64_t j = 0; j < count; ++j) out[j] = narrow(sums[j]);
  } else {
    std::memcpy(static_cast<float*>(a.out) + i * a.ldo + begin, sums,
                static_cast<std::size_t>(count) * sizeof(float));
  }
}

}  // namespace
}  // namespace lamina::cpu
