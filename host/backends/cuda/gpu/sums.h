// Sums and maxima over the threads of a warp or a block, in a fixed order: the same bits in each
// run. All threads take part, and the number of threads is a multiple of 32.
#pragma once

#include "backends/cuda/gpu/gpu.h"

namespace lamina::cuda::gpu {

struct SumOf {
  template <typename T>
  LAMINA_GPU_FUNCTION T operator()(T a, T b) const {
    return a + b;
  }
};
struct MaxOf {
  template <typename T>
  LAMINA_GPU_FUNCTION T operator()(T a, T b) const {
    return max(a, b);
  }
};
struct MaxOrNan {
  template <typename T>
  LAMINA_GPU_FUNCTION T operator()(T a, T b) const {
    return max_or_nan(a, b);
  }
};

// Combines the values of all lanes; each lane gets the result.
template <typename Op, typename T>
LAMINA_GPU_FUNCTION T warp_combine(T x, Op op) {
  for (int mask = kWarpSize / 2; mask > 0; mask /= 2) x = op(x, shuffle_xor(x, mask));
  return x;
}
template <typename T>
LAMINA_GPU_FUNCTION T warp_sum(T x) {
  return warp_combine(x, SumOf{});
}
template <typename T>
LAMINA_GPU_FUNCTION T warp_max(T x) {
  return warp_combine(x, MaxOf{});
}

// Combines the values of all threads; each thread gets the result. `scratch` has 32 elements and
// may be used again afterwards. `neutral` changes no result: 0 for sums.
template <typename Op, typename T>
LAMINA_GPU_FUNCTION T block_combine(T x, T neutral, Op op, Shared<T> scratch) {
  x = warp_combine(x, op);
  if (num_threads() <= kWarpSize) return x;
  if (lane() == 0) scratch[warp_index()] = x;
  sync();
  T all = neutral;
  if (lane() < num_warps()) all = scratch[lane()];
  all = warp_combine(all, op);
  sync();
  return all;
}
template <typename T>
LAMINA_GPU_FUNCTION T block_sum(T x, Shared<T> scratch) {
  return block_combine(x, T{0}, SumOf{}, scratch);
}
// `least`: no value is smaller.
template <typename T>
LAMINA_GPU_FUNCTION T block_max(T x, T least, Shared<T> scratch) {
  return block_combine(x, least, MaxOf{}, scratch);
}

// The same, with a scratch array of each function.
template <typename T>
LAMINA_GPU_FUNCTION T block_sum(T x) {
  LAMINA_GPU_SHARED(T, scratch, kWarpSize);
  return block_sum(x, scratch);
}
template <typename T>
LAMINA_GPU_FUNCTION T block_max(T x, T least) {
  LAMINA_GPU_SHARED(T, scratch, kWarpSize);
  return block_max(x, least, scratch);
}

}  // namespace lamina::cuda::gpu
