// Products of few rows with plain matrices: few_rows.h.
#include "backends/cuda/gemm/few_rows.h"

namespace lamina::cuda {

// few_rows_N_*: a warp computes N rows of w, more for large matrices, which fill the GPU anyway.
// *_numbers_* take rows that vector loads cannot read. Units of f32 take twice the registers.
#define LAMINA_PLAIN(name, X, kOneRowBlocks)                                \
  using PlainVectors_##name = PlainRows<X, true>;                           \
  using PlainNumbers_##name = PlainRows<X, false>;                          \
  LAMINA_FEW_ROWS(numbers_##name, PlainNumbers_##name, X, 1, kOneRowBlocks) \
  LAMINA_FEW_ROWS(1_##name, PlainVectors_##name, X, 1, kOneRowBlocks)       \
  LAMINA_FEW_ROWS(2_##name, PlainVectors_##name, X, 2, kOneRowBlocks)       \
  LAMINA_FEW_ROWS(4_##name, PlainVectors_##name, X, 4, kOneRowBlocks)
LAMINA_PLAIN(f32, float, 2)
LAMINA_PLAIN(bf16, gpu::bfloat16, 3)

}  // namespace lamina::cuda
