// Decides for all open GPUs together whether kernels may call cuDNN, so that replicas on unequal
// cards run the same kernels.
#pragma once

#include "runtime/kernel.h"

namespace lamina::cuda::dnn {

// LAMINA_GPU_CUDNN: 0, not set, all. config/environment.cc refuses other values.
enum class Wanted {
  never,
  where_faster,  // the masks that NVIDIA's engines were made for, and many queries
  all            // everything that cuDNN can compute, to compare it
};
Wanted wanted();  // [any thread]

// True if cuDNN is installed and every open GPU has the fast engines: 9.0 or newer, and exactly 9.x
// for gradients, whose order of sums is fixed there. [any thread]
Verdict usable(bool backward);

}  // namespace lamina::cuda::dnn
