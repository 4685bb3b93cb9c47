// Memory of the GPU, and host memory that it copies from and to.
#pragma once

#include <memory>

#include "backends/cuda/context.h"
#include "runtime/memory.h"

namespace lamina::cuda {

// Both are zeroed. Throw DeviceError (exit 7) with the requested size if there is too little
// memory.
std::unique_ptr<Buffer> allocate_on_device(CudaContext& context, std::size_t bytes);
std::unique_ptr<Buffer> allocate_pinned(CudaContext& context, std::size_t bytes);

}  // namespace lamina::cuda
