// Products of rows in groups by tensor cores, with matrices that are stored in blocks:
// grouped_stored.h.
#include "backends/cuda/gemm/grouped_stored.h"

namespace lamina::cuda {

#define LAMINA_GROUPED_STORED(name, Format)                                        \
  LAMINA_GPU_KERNEL_BOUNDS(grouped_##name##_bf16, GroupedParams, kMmaThreads, 2) { \
    grouped_stored<MmaTile<gpu::bfloat16, 64>, stored::Format>(p);                 \
  }
LAMINA_STORED_FORMATS(LAMINA_GROUPED_STORED)
#undef LAMINA_GROUPED_STORED

}  // namespace lamina::cuda
