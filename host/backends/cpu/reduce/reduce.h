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

}  // namespace lamina::cpu
