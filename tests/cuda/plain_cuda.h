// Keywords and variables of CUDA C++ for the emulated GPU, so that kernels of plugins, which are
// plain CUDA C++, run on it. Include it before a .cu file, and list its kernels afterwards:
//
//   LAMINA_PLAIN_KERNEL(xielu_forward, ForwardParams)
//
// A function to_host(Params&) replaces addresses of the GPU by places that the host can access.
// Accesses are not checked, unlike in our kernels.
#pragma once

#include "backends/cuda/gpu/gpu.h"
#include "backends/emulated/memory.h"

namespace lamina::testing {

struct PlainIndex {
  unsigned x, y, z;
};
inline PlainIndex plain_thread_index() {
  return {static_cast<unsigned>(cuda::gpu::thread_index()), 0, 0};
}
inline PlainIndex plain_block_index() {
  return {static_cast<unsigned>(cuda::gpu::block_index()),
          static_cast<unsigned>(cuda::gpu::block_index_y()),
          static_cast<unsigned>(cuda::gpu::block_index_z())};
}
inline PlainIndex plain_block_dim() {
  return {static_cast<unsigned>(cuda::gpu::num_threads()), 1, 1};
}
inline PlainIndex plain_grid_dim() {
  return {static_cast<unsigned>(cuda::gpu::num_blocks()),
          static_cast<unsigned>(cuda::gpu::num_blocks_y()),
          static_cast<unsigned>(cuda::gpu::num_blocks_z())};
}

template <typename T>
void move_to_host(T*& pointer) {
  pointer = static_cast<T*>(emulated::behind(reinterpret_cast<Address>(pointer)));
}

}  // namespace lamina::testing

#define __global__
#define __device__
// A block runs on one thread of the host, and one block at a time.
#define __shared__ static thread_local
#define __syncthreads() ::lamina::cuda::gpu::sync()
#define threadIdx ::lamina::testing::plain_thread_index()
#define blockIdx ::lamina::testing::plain_block_index()
#define blockDim ::lamina::testing::plain_block_dim()
#define gridDim ::lamina::testing::plain_grid_dim()
#define __uint_as_float(bits) __builtin_bit_cast(float, bits)
#define __float_as_uint(number) __builtin_bit_cast(unsigned, number)

#define LAMINA_PLAIN_KERNEL(name, Params)                           \
  static const ::lamina::cuda::gpu::EmulatedKernel name##_emulated( \
      #name, sizeof(Params), 1024, [](const void* params) {         \
        Params host_params = *static_cast<const Params*>(params);   \
        to_host(host_params);                                       \
        name(host_params);                                          \
      });
