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

// The functions of one instruction set, for rows [begin, end). Private to this folder.
struct SoftmaxFunctions {
  void (*rows)(const Softmax& p, std::int64_t begin, std::int64_t end);

  static const SoftmaxFunctions avx512, avx2, portable;
};

}  // namespace lamina::cpu
