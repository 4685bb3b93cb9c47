// Parameters of the kernels that widen stored values.
#pragma once

#include <cstdint>

#include "backends/cuda/gpu/address.h"

namespace lamina::cuda {

// Sets y[0, count) to the values of the blocks at x; count is a multiple of the format's block.
// y is aligned to 16 bytes.
struct WidenParams {
  gpu::Address x, y;
  std::int64_t count;
};

}  // namespace lamina::cuda
