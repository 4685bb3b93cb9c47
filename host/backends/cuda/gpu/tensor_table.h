// Parameters of kernels that work on many tensors in one launch.
#pragma once

#include <cstdint>

namespace lamina::cuda {

// Tensors, each in chunks. The chunks of all are numbered through: tensor i has first_chunks[i] and
// the following ones. A block takes `chunks_per_block` in succession. Every driver takes parameters
// of 4 KiB; 64 bytes are for other parameters of a kernel.
template <typename Tensor>
struct TensorTable {
  static constexpr int kMost = static_cast<int>((4096 - 64) / (sizeof(Tensor) + 4));
  std::int32_t num_tensors, num_chunks, chunks_per_block;
  std::int32_t first_chunks[kMost];
  Tensor tensors[kMost];
};

}  // namespace lamina::cuda
