// Products of few rows with matrices that are stored in blocks: few_rows.h. Decoding a value takes
// more instructions than multiplying it, so these kernels are bound by instructions, not by bytes.
// Device code; the formats are in two files, because ptxas takes minutes for them.
#pragma once

#include "backends/cuda/gemm/few_rows.h"

#define LAMINA_FEW_STORED_ROWS(name, Format)                          \
  using StoredF32_##name = BlockRows<stored::Format, float>;          \
  using StoredBf16_##name = BlockRows<stored::Format, gpu::bfloat16>; \
  LAMINA_FEW_ROWS(name##_f32, StoredF32_##name, float, 1, 3)          \
  LAMINA_FEW_ROWS(name##_bf16, StoredBf16_##name, gpu::bfloat16, 1, 3)
