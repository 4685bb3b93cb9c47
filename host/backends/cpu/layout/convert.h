// Copies that change the element type or the order of dims: checkpoints, transposes, slices,
// concat.
//
//   convert_transposed(checkpoint, DType::bf16, in, out, out, weights, DType::f32, in);  //
//   [in,out] -> [out,in]
//
// Nothing is allocated; results do not depend on the number of threads. [any thread]
#pragma once

#include <array>
#include <cstdint>

#include "core/dtype.h"
#include "core/shape.h"

namespace lamina::cpu {

// n elements; any of f32, bf16, f16 and f64 on either side. Rounds to nearest even, f64 by way of
// f32 where the result is shorter. x and y must not overlap, unless they are the same and of one
// size.
void convert(const void* x, DType x_dtype, void* y, DType y_dtype, std::int64_t n);

// y[c, r] = x[r, c] for r < rows, c < columns, with rows of x and y x_stride and y_stride elements
// apart. The same dtypes; also any dtype to itself.
void convert_transposed(const void* x, DType x_dtype, std::int64_t rows, std::int64_t columns,
                        std::int64_t x_stride, void* y, DType y_dtype, std::int64_t y_stride);

// Copies elements of one size (1, 2, 4 or 8 bytes) between any two layouts of the same dims. With
// offset pointers this is a transpose, a slice, or one part of a concatenation.
struct StridedCopy {
  int element_bytes;
  Shape dims;
  const void* x;
  std::array<std::int64_t, kMaxDims> x_strides;  // in elements; 0 repeats
  void* y;                                       // does not overlap x
  std::array<std::int64_t, kMaxDims> y_strides;
};
void strided_copy(const StridedCopy& c);

}  // namespace lamina::cpu
