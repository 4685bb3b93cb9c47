// Prefix sums over the threads of a warp and of a block, in a fixed order, and sets of lanes.
#pragma once

#include <cstdint>

#include "backends/cuda/gpu/gpu.h"

namespace lamina::cuda::gpu {

// Number of lanes in a mask.
LAMINA_GPU_FUNCTION int count_lanes(std::uint32_t mask) {
  mask -= mask >> 1 & 0x55555555u;
  mask = (mask & 0x33333333u) + (mask >> 2 & 0x33333333u);
  return static_cast<int>(((mask + (mask >> 4)) & 0x0f0f0f0fu) * 0x01010101u >> 24);
}

// The lanes before this one, as a mask.
LAMINA_GPU_FUNCTION std::uint32_t lanes_before() { return (std::uint32_t{1} << lane()) - 1; }

// Returns the sum of `value` over lanes 0 to this one. [all lanes]
template <typename T>
LAMINA_GPU_FUNCTION T warp_inclusive_sum(T value) {
  for (int distance = 1; distance < kWarpSize; distance *= 2) {
    const int before = lane() >= distance ? lane() - distance : lane();
    const T other = shuffle(value, before);
    if (lane() >= distance) value += other;
  }
  return value;
}

template <typename T>
struct PrefixSum {
  T before;  // the sum over the threads before this one
  T total;   // over all threads
};

// Sums over the threads of a block. `scratch`: one element per warp. [all threads]
template <typename T>
LAMINA_GPU_FUNCTION PrefixSum<T> block_prefix_sum(T value, Shared<T> scratch) {
  const T inclusive = warp_inclusive_sum(value);
  if (lane() == kWarpSize - 1) scratch[warp_index()] = inclusive;
  sync();
  PrefixSum<T> out{inclusive - value, T{0}};
  for (int warp = 0; warp < num_warps(); ++warp) {
    if (warp < warp_index()) out.before += scratch[warp];
    out.total += scratch[warp];
  }
  sync();  // the next call writes scratch
  return out;
}

}  // namespace lamina::cuda::gpu
