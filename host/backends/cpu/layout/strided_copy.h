// Copies that change the order of dims: transposes.
//
// Nothing is allocated; results do not depend on the number of threads. [any thread]
#pragma once

#include <array>
#include <cstdint>

#include "core/shape.h"

namespace lamina::cpu {

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
