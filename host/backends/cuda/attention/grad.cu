// The gradients of attention by tensor cores: the forms of its tiles.
#include "backends/cuda/attention/grad.h"

namespace lamina::cuda {

#define LAMINA_ATTENTION_GRAD_FORM(name, own_warps, col_warps, other, cols)        \
  LAMINA_GPU_KERNEL_BOUNDS(attention_grad_keys_##name##_bf16, AttentionGradParams, \
                           32 * own_warps * col_warps, 1) {                        \
    grad_tile<gpu::bfloat16, true, own_warps, col_warps, other, cols>(p);          \
  }                                                                                \
  LAMINA_GPU_KERNEL_BOUNDS(attention_grad_rows_##name##_bf16, AttentionGradParams, \
                           32 * own_warps * col_warps, 1) {                        \
    grad_tile<gpu::bfloat16, false, own_warps, col_warps, other, cols>(p);         \
  }
#include "backends/cuda/attention/grad_forms.def"
#undef LAMINA_ATTENTION_GRAD_FORM

}  // namespace lamina::cuda
