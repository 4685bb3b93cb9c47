// Tensors that are f32 or bf16, as parameters of kernels that accept both at run time. A kernel
// reads them with the classes of gpu/typed.h.
#pragma once

#include <cstdint>

#include "backends/cuda/gpu/address.h"

namespace lamina::cuda::gpu {

struct TypedAddress {
  Address at;
  std::int32_t is_bf16 = 0;
};

}  // namespace lamina::cuda::gpu
