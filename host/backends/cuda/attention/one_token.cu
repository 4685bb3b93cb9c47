// attention of one token per row over decode state: kernels by the width of heads
// and the rows of keys and values.
#include "backends/cuda/attention/one_token.h"

namespace lamina::cuda {

#define LAMINA_ONE_TOKEN(name, blocks, ...)                                                   \
  LAMINA_GPU_KERNEL_BOUNDS(attention_one_token_##name##_bf16, AttentionParams, 128, blocks) { \
    attention_one_token<gpu::bfloat16, __VA_ARGS__, 4>(p);                                    \
  }
LAMINA_ONE_TOKEN(64, 4, WordRows<64>)
LAMINA_ONE_TOKEN(128, 3, WordRows<128>)
LAMINA_ONE_TOKEN(256, 2, WordRows<256>)
LAMINA_ONE_TOKEN(64_int8, 4, NumberRows<stored::Int8Number, 64>)
LAMINA_ONE_TOKEN(128_int8, 2, NumberRows<stored::Int8Number, 128>)
LAMINA_ONE_TOKEN(256_int8, 2, NumberRows<stored::Int8Number, 256>)
LAMINA_ONE_TOKEN(64_fp8, 4, NumberRows<stored::Fp8Number, 64>)
LAMINA_ONE_TOKEN(128_fp8, 2, NumberRows<stored::Fp8Number, 128>)
LAMINA_ONE_TOKEN(256_fp8, 2, NumberRows<stored::Fp8Number, 256>)
#undef LAMINA_ONE_TOKEN

}  // namespace lamina::cuda
