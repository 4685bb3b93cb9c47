// Operands of kernels whose type is known at run time.
#pragma once

#include "core/dtype.h"

namespace lamina::cpu {

// Numbers that are f32 or bf16 in memory.
struct ConstNumbers {
  const void* data = nullptr;
  DType dtype = DType::f32;
};
struct Numbers {
  void* data = nullptr;
  DType dtype = DType::f32;
};

}  // namespace lamina::cpu
