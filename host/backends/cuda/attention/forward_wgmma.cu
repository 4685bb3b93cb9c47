// attention by warpgroups: warpgroups.h. Names have the width of heads.
#include "backends/cuda/attention/warpgroups.h"

namespace lamina::cuda {

LAMINA_GPU_KERNEL_90(attention_wgmma_64_bf16, AttentionParams, kWarpgroupThreads, 1,
                     attention_wgmma<64>(p))
LAMINA_GPU_KERNEL_90(attention_wgmma_128_bf16, AttentionParams, kWarpgroupThreads, 1,
                     attention_wgmma<128>(p))

}  // namespace lamina::cuda
