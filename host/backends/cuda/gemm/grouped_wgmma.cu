// Products of rows in groups by warpgroups, with plain matrices in bf16: warpgroup_tile.h. Names
// have the number of rows of a tile. Rows that vector loads cannot read: grouped_mma.cu.
#include "backends/cuda/gemm/grouped_mma.h"
#include "backends/cuda/gemm/warpgroup_tile.h"

namespace lamina::cuda {
namespace {

template <int kRows, bool kAlongK>
LAMINA_GPU_FUNCTION void grouped_wgmma(const GroupedParams& p) {
  grouped_tile<WarpgroupTile<kRows>, gpu::bfloat16, kRows, kAlongK, true>(p);
}

}  // namespace

#define LAMINA_GROUPED_90(name, Params, ...) \
  LAMINA_GPU_KERNEL_90(name, Params, kMmaThreads, 2, __VA_ARGS__(p))
LAMINA_GROUPED_90(grouped_wgmma_64_bf16, GroupedParams, grouped_wgmma<64, true>)
LAMINA_GROUPED_90(grouped_wgmma_128_bf16, GroupedParams, grouped_wgmma<128, true>)
LAMINA_GROUPED_90(grouped_dx_wgmma_64_bf16, GroupedParams, grouped_wgmma<64, false>)
LAMINA_GROUPED_90(grouped_dx_wgmma_128_bf16, GroupedParams, grouped_wgmma<128, false>)
LAMINA_GROUPED_90(grouped_dw_wgmma_bf16, GroupedGradParams,
                  grouped_grad_tile<WarpgroupTile<kMmaGradRows>, gpu::bfloat16, true>)

}  // namespace lamina::cuda
