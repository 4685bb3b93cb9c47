// Binary search in memory of the device.
#pragma once

#include <cstdint>

#include "backends/cuda/gpu/gpu.h"

namespace lamina::cuda::gpu {

// Returns the first index in [0, count) whose value is not below `value`, or count. REQUIRES:
// sorted values.
LAMINA_GPU_FUNCTION std::int32_t lower_bound(Global<const std::int32_t> values, std::int32_t count,
                                             std::int32_t value) {
  std::int32_t first = 0;
  while (count > 0) {
    const std::int32_t half = count / 2;
    if (values[first + half] < value) {
      first += half + 1;
      count -= half + 1;
    } else {
      count = half;
    }
  }
  return first;
}

}  // namespace lamina::cuda::gpu
