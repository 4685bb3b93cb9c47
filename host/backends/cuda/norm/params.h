// Arguments of the kernels of norms.
#pragma once

#include <cstdint>

#include "backends/cuda/gpu/address.h"

namespace lamina::cuda {

// y = (h - mean) scale (offset + weight) + bias for each row, with h = x, or h = x + residual
// rounded; RMS norm: mean and bias are 0.
struct NormForward {
  gpu::Address x, residual, weight, bias;  // residual, weight and bias: null if absent
  gpu::Address y, sum;                     // sum: h, with a residual
  std::int64_t num_rows;
  int width;
  int threads_per_row;  // a power of two
  float eps, offset;
};

// dx, and the sums of a block's rows for the gradients of weight and bias.
struct NormBackward {
  gpu::Address x, weight, dy;
  gpu::Address dx;        // may be dy
  gpu::Address partials;  // f32[blocks, 2 or 1, width]; null: gradients are not wanted
  std::int64_t num_rows;
  int width;
  int threads_per_row;
  float eps, offset;
};

// out[k, i] = the sum over parts of partials[part, k, i].
struct NormGradients {
  gpu::Address partials;  // f32[parts, outputs, width]
  gpu::Address out[2];    // f32[width] each; null: not wanted
  int parts, outputs, width;
};

}  // namespace lamina::cuda
