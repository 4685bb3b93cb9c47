// The table of reducing functions of one instruction set. Private to reduce*.cc.
#pragma once

#include <cstdint>

#include "core/float16.h"

namespace lamina::cpu {

// Wider than any sum that passes through it: f for floating numbers, i for integers.
union ReduceTotal {
  double f;
  std::int64_t i;
};

// Folds n elements, `stride` apart, into *total.
using ReduceRun = void (*)(ReduceTotal* total, const void* x, std::int64_t n, std::int64_t stride);
// Folds num_rows rows into totals[0 .. n), column by column; n <= kReduceColumns.
using ReduceColumns = void (*)(ReduceTotal* totals, const void* x, std::int64_t num_rows,
                               std::int64_t row_stride, std::int64_t n, std::int64_t column_stride);
inline constexpr std::int64_t kReduceColumns = 2048;

struct ReduceFold {
  ReduceRun run;
  ReduceColumns columns;
};
struct ReduceFunctions {
  ReduceFold sum_f32, sum_bf16, max_f32, max_bf16;

  static const ReduceFunctions avx512, avx2, portable;
};

}  // namespace lamina::cpu
