// Kernels are written in C++ for one thread of a GPU, with the functions and types below. A
// kernels.cu includes this file and is compiled twice: by nvcc for the GPU, and by the compiler of
// the host for the emulated GPU of the tests (docs/cuda.md).
//
//   struct ScaleParams { gpu::Address x, y; std::int64_t count; float factor; };
//
//   LAMINA_GPU_KERNEL(scale_f32, ScaleParams) {
//     const gpu::Global<const float> x(p.x);
//     const gpu::Global<float> y(p.y);
//     const std::int64_t step = std::int64_t{gpu::num_blocks()} * gpu::num_threads();
//     for (std::int64_t i = gpu::first_index(); i < p.count; i += step) y[i] = p.factor * x[i];
//   }
//
// Blocks have one dimension, grids up to three.
//   thread_index() num_threads() lane() warp_index()             of the thread in its block
//   block_index() num_blocks(), and _y(), _z() of both           of the block in the grid
//   first_index()                          block_index() * num_threads() + thread_index(), 64 bits
//   sync() sync_warp()                     all threads of the block, of the warp
//   shuffle shuffle_xor shuffle_down ballot any all              all 32 lanes take part
//   LAMINA_GPU_SHARED(T, name, N)          an array of the block; undefined at first
//   dynamic_shared<T>(first_byte)          the launch's shared bytes
//   Global<T> Shared<T>                    places in memory, used like pointers: x[i], x + n
//   load_vector<N>(x, i) store_vector<N>(x, i, v)      elements [i, i + N), aligned
//   copy_async<Bytes>(shared, global) commit_copies() wait_copies<N>()
//   LAMINA_GPU_UNROLL                      before a loop over registers
//   atomic_add atomic_max                  integers only: floating sums have a fixed order
//   load_matrix mma_16x8x16                tensor cores, gpu/tensor_cores.h
//   LAMINA_GPU_KERNEL_90 warpgroup_multiply   tensor cores of compute capability 9.0,
//                                          gpu/warpgroup.h
//   LAMINA_GPU_KERNEL_EARLY wait_for_earlier prefetch    a kernel that begins before earlier ones
//                                          have ended, and prefetches; every other one waits first
// gpu/number.h: types of numbers, load() and store(); gpu/sums.h: sums of warps and blocks.
#pragma once

#include <cmath>
#include <cstdint>

#include "backends/cuda/gpu/address.h"

namespace lamina::cuda::gpu {

inline constexpr int kWarpSize = 32;

// Numbers that one instruction loads or stores: at most 16 bytes.
template <typename T, int N>
struct alignas(sizeof(T) * N) Vector {
  static_assert(sizeof(T) * N <= 16);
  T values[N];
};

}  // namespace lamina::cuda::gpu

#ifdef __CUDACC__
#include "backends/cuda/gpu/device.h"
#else
#include "backends/cuda/gpu/emulated.h"
#endif

#include "backends/cuda/gpu/number.h"

namespace lamina::cuda::gpu {

LAMINA_GPU_FUNCTION int lane() { return thread_index() % kWarpSize; }
LAMINA_GPU_FUNCTION int warp_index() { return thread_index() / kWarpSize; }
LAMINA_GPU_FUNCTION int num_warps() { return (num_threads() + kWarpSize - 1) / kWarpSize; }
LAMINA_GPU_FUNCTION std::int64_t first_index() {
  return std::int64_t{block_index()} * num_threads() + thread_index();
}
LAMINA_GPU_FUNCTION std::int64_t num_indices() {
  return std::int64_t{num_blocks()} * num_threads();
}

}  // namespace lamina::cuda::gpu
