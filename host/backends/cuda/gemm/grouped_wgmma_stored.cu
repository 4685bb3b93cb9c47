// Products of rows in groups by warpgroups, with matrices that are stored in blocks: they have the
// bits of grouped_wgmma.cu for the widened matrices.
#include "backends/cuda/gemm/grouped_stored.h"
#include "backends/cuda/gemm/warpgroup_tile.h"

namespace lamina::cuda {

#define LAMINA_GROUPED_STORED(name, Format)                                        \
  LAMINA_GPU_KERNEL_90(grouped_wgmma_##name##_bf16, GroupedParams, kMmaThreads, 2, \
                       grouped_stored<WarpgroupTile<64>, stored::Format>(p))
LAMINA_STORED_FORMATS(LAMINA_GROUPED_STORED)
#undef LAMINA_GROUPED_STORED

}  // namespace lamina::cuda
