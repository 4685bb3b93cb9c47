// Softmax and log-softmax over the last dim of f32 or bf16 rows, forward and backward.
// Arithmetic is in f32. Nothing is allocated; results do not depend on the number of threads.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace lamina::cpu {

struct SoftmaxForward {
  DType dtype;  // of x and y
  std::int64_t num_rows, width;
  const void* x;  // rows x_stride elements apart
  std::int64_t x_stride;
  void* y;  // may be x
  std::int64_t y_stride;
  bool log = false;  // y = log softmax(x)
};
// A row of -infinities gives zeros (log: -infinities). [any thread]
void softmax_forward(const SoftmaxForward& p);

struct SoftmaxBackward {
  DType dtype;  // of all three
  std::int64_t num_rows, width;
  const void* y;  // what the forward pass gave
  std::int64_t y_stride;
  const void* dy;
  std::int64_t dy_stride;
  void* dx;  // may be dy
  std::int64_t dx_stride;
  bool log = false;
};
void softmax_backward(const SoftmaxBackward& p);

}  // namespace lamina::cpu
