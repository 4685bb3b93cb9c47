// Parameters of the kernels of random and dropout.
#pragma once

#include <cstdint>

#include "backends/cuda/gpu/address.h"

namespace lamina::cuda {

// Number i of a random stream decides on element i. seed: i64[2], the run's seed and the step;
// layer: i32[], may be absent.
struct RandomParams {
  gpu::Address seed, layer;
  gpu::Address x, y;    // x: for dropout
  std::int64_t stream;  // of the op
  std::int64_t num_elements;
  std::uint64_t threshold;  // an element is kept if its 32 bits are not below
  double scale;             // of kept elements
};

}  // namespace lamina::cuda
