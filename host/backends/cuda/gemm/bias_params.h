// Parameters of the kernels that round the bias of a product to the type of its result.
#pragma once

#include <cstdint>

#include "backends/cuda/gpu/address.h"

namespace lamina::cuda {

struct LinearBiasParams {
  gpu::Address x;  // f32[count]
  gpu::Address y;
  std::int64_t count;
};

}  // namespace lamina::cuda
