// Parameters of the kernels of matrix_scan, its gradient and its step.
#pragma once

#include "backends/cuda/matrix_scan/recurrence_params.h"

namespace lamina::cuda {

// Tokens of a chunk of the gradient, and value channels that it has in shared memory at a time.
inline constexpr int kMatrixChunk = 16, kMatrixColumns = 16;

// Keys [batch, tokens, heads, key_width]; each of their heads may serve several heads.
struct MatrixKeyNumbers {
  gpu::TypedAddress x;
  std::int64_t heads = 1;
};

struct MatrixScanParams {
  Recurrence tokens;
  MatrixKeyNumbers q, k, a, b;  // a and b: null without a term of rank one
  gpu::TypedAddress g;          // [batch, tokens, heads], per_channel: and key_width
  std::int32_t per_channel;
  float scale;
};

struct MatrixScanGradParams {
  MatrixScanParams scan;
  gpu::TypedAddress dq, dk, dv, dg, da, db;  // dq, dk, da and db have all heads
};

}  // namespace lamina::cuda
