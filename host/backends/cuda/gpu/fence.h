// The order in which blocks see what a thread of another block has written.
#pragma once

#include "backends/cuda/gpu/gpu.h"

namespace lamina::cuda::gpu {

// Makes what this thread has written visible to other blocks before what it writes later. On the
// emulated GPU threads see all that has been written.
LAMINA_GPU_FUNCTION void fence() {
#ifdef __CUDACC__
  __threadfence();
#endif
}

}  // namespace lamina::cuda::gpu
