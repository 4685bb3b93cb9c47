// Softmax over the last dim of f32 or bf16 rows.
// Arithmetic is in f32. Nothing is allocated; results do not depend on the number of threads.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace lamina::cpu {

struct Softmax {
  DType dtype;  // of x and y
  std::int64_t num_rows, width;
  const void* x;
  void* y;  // may be x
};
// A row of -infinities gives zeros. [any thread]
void softmax(const Softmax& p);

}  // namespace lamina::cpu
