// Parameters of the kernels that measure limits of a GPU.
#pragma once

#include <cstdint>

#include "backends/cuda/gpu/address.h"

namespace lamina::cuda {

// Reads `count` vectors of 16 bytes at x; found[0] counts the blocks that saw a bit in all of them,
// so that no read is left out.
struct ReadParams {
  gpu::Address x, found;
  std::int64_t count;
};

}  // namespace lamina::cuda
