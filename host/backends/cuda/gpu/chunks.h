// Blocks that share the chunks of many tensors. A table has num_tensors, num_chunks,
// chunks_per_block, and first_chunks[]: the number of each tensor's first chunk.
#pragma once

#include "backends/cuda/gpu/gpu.h"

namespace lamina::cuda::gpu {

// Returns the end of a tensor's chunks.
template <typename Table>
LAMINA_GPU_FUNCTION std::int32_t past_chunks(const Table& table, int tensor) {
  return tensor + 1 < table.num_tensors ? table.first_chunks[tensor + 1] : table.num_chunks;
}

// Returns the last tensor whose chunks begin at `chunk` or before.
template <typename Table>
LAMINA_GPU_FUNCTION int tensor_of(const Table& table, std::int32_t chunk) {
  int first = 0, count = table.num_tensors;
  while (count > 1) {
    const int half = count / 2;
    if (table.first_chunks[first + half] <= chunk) {
      first += half;
      count -= half;
    } else {
      count = half;
    }
  }
  return first;
}

// Calls work(tensor, first, past) for the chunks of this block: chunks [first, past) of a tensor.
template <typename Table, typename Work>
LAMINA_GPU_FUNCTION void for_chunks_of_block(const Table& table, const Work& work) {
  std::int32_t chunk = block_index() * table.chunks_per_block;
  const std::int32_t past = min(chunk + table.chunks_per_block, table.num_chunks);
  for (int tensor = tensor_of(table, chunk); chunk < past; ++tensor) {
    const std::int32_t first = table.first_chunks[tensor];
    const std::int32_t here = min(past, past_chunks(table, tensor));
    work(tensor, chunk - first, here - first);
    chunk = here;
  }
}

}  // namespace lamina::cuda::gpu
