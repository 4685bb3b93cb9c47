// Sums and maxima over any dims of an N-d tensor.
//
//   Reduce r = {.op = ReduceOp::sum, .dtype = DType::bf16, .dims = {rows, width},
//               .strides = {width, 1}, .reduced = {true, false}, .x = dy, .y = dbias,
//               .y_dtype = DType::f32};
//   r.workspace = arena.take(reduce_workspace_bytes(r));
//   reduce(r);
//
// Sums of f32 and bf16 are added in blocks of f32, then in f64; integers are added in i64. The
// order depends on the shape alone. Nothing is allocated. [any thread]
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/dtype.h"
#include "core/float16.h"
#include "core/shape.h"

namespace lamina::cpu {

enum class ReduceOp : std::uint8_t {
  sum,
  max,  // NaN if any is NaN; of no elements: -infinity, or the minimum of i64
};

struct Reduce {
  ReduceOp op;
  DType dtype;  // of x: f32, bf16, f64, i32 or i64
  Shape dims;
  std::array<std::int64_t, kMaxDims> strides;  // of x, in elements
  std::array<bool, kMaxDims> reduced;          // by dim
  const void* x;
  void* y;                    // contiguous over the kept dims
  DType y_dtype;              // f32, bf16 or f64 from floats; i32 or i64 from integers
  double scale = 1;           // of floating results, eg: 1 / count for a mean
  void* workspace = nullptr;  // reduce_workspace_bytes()
};
void reduce(const Reduce& r);
std::size_t reduce_workspace_bytes(const Reduce& r);

// The rest is for kernels of the CPU backend only.

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
// The functions of one instruction set.
struct ReduceFunctions {
  ReduceFold sum_f32, sum_bf16, max_f32, max_bf16;

  static const ReduceFunctions avx512, avx2, portable;
};

}  // namespace lamina::cpu
