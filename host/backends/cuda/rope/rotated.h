// The rotation of a pair of channels. Device code.
#pragma once

#include "backends/cuda/gpu/gpu.h"

namespace lamina::cuda {

// Wide numbers of the pairs: a rotates to a cos - b sin, b to b cos + a sin.
template <typename W>
struct Pair {
  W a, b;
};
template <typename W>
LAMINA_GPU_FUNCTION Pair<W> rotated(W a, W b, W cos, W sin) {
  return {gpu::fma(a, cos, -(b * sin)), gpu::fma(b, cos, a * sin)};
}

}  // namespace lamina::cuda
