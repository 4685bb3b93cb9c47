// attention by tensor cores: the forms of its tile. The host chooses one by the number of rows and
// the width of the values (forms.h).
#include "backends/cuda/attention/forward.h"

namespace lamina::cuda {

#define LAMINA_ATTENTION_FORM(name, row_warps, col_warps, keys, cols)                            \
  LAMINA_GPU_KERNEL_BOUNDS(attention_##name##_bf16, AttentionParams, 32 * row_warps * col_warps, \
                           1) {                                                                  \
    attention_tile<gpu::bfloat16, row_warps, col_warps, keys, cols>(p);                          \
  }
#include "backends/cuda/attention/forms.def"
#undef LAMINA_ATTENTION_FORM

}  // namespace lamina::cuda
