// Parameters of the kernels of softmax.
#pragma once

#include <cstdint>

#include "backends/cuda/gpu/address.h"

namespace lamina::cuda {

// y = softmax of each row of x; y may be x.
struct SoftmaxParams {
  gpu::Address x, y;
  std::int64_t num_rows;
  int width;
};

}  // namespace lamina::cuda
