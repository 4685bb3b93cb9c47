// Binary search in memory of the device.
#pragma once

#include <cstdint>

#include "backends/cuda/gpu/gpu.h"

namespace lamina::cuda::gpu {

// Returns the first index in [0, count) whose value is not below `value`, or count. REQUIRES:
// sorted values.
template <typename Index>
LAMINA_GPU_FUNCTION Index lower_bound(Global<const std::int32_t> values, Index count, Index value) {
  Index first = 0;
  while (count > 0) {
    const Index half = count / 2;
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
