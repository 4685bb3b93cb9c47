// The address of memory on the GPU, as kernels and the parameters of kernels have it.
#pragma once

#include <cstdint>

namespace lamina::cuda::gpu {

// Null for a tensor that is absent. The host cannot dereference it; a kernel makes a Global of it.
struct Address {
  std::uint64_t value = 0;
};

}  // namespace lamina::cuda::gpu
