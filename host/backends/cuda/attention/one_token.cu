// attention of one token per row over decode state: kernels by the width of heads.
#include "backends/cuda/attention/one_token.h"

namespace lamina::cuda {

#define LAMINA_ONE_TOKEN(width, blocks)                                                        \
  LAMINA_GPU_KERNEL_BOUNDS(attention_one_token_##width##_bf16, AttentionParams, 128, blocks) { \
    attention_one_token<gpu::bfloat16, width, 4>(p);                                           \
  }
LAMINA_ONE_TOKEN(64, 4)
LAMINA_ONE_TOKEN(128, 3)
LAMINA_ONE_TOKEN(256, 2)
#undef LAMINA_ONE_TOKEN

}  // namespace lamina::cuda
