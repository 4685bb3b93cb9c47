// Operands that are f32 or bf16, for kernels that accept both at run time (gpu/typed.h).
#pragma once

#include "backends/cuda/gpu/typed_address.h"
#include "backends/cuda/launch.h"
#include "core/dtype.h"

namespace lamina::cuda {

// REQUIRES: dtype is f32 or bf16.
inline gpu::TypedAddress typed(DType dtype) {
  return {.at = {}, .is_bf16 = dtype == DType::bf16 ? 1 : 0};
}
inline gpu::TypedAddress typed(DType dtype, const void* memory) {
  return {.at = address(memory), .is_bf16 = dtype == DType::bf16 ? 1 : 0};
}

}  // namespace lamina::cuda
