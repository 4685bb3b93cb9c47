// Arguments of the kernels of sinkhorn.
#pragma once

#include <cstdint>

#include "backends/cuda/gpu/address.h"

namespace lamina::cuda {

// Matrices [k, k], k <= 16.
struct SinkhornParams {
  gpu::Address x;
  gpu::Address dy;         // of the gradient
  gpu::Address y;          // of the gradient: dx
  gpu::Address divisions;  // of the gradient: [2 iterations - 1, K + 1, threads of the grid]
  std::int64_t count;
  int k, iterations;
  double eps;
};

}  // namespace lamina::cuda
