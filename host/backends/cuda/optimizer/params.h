// Arguments of the kernels of the optimizer. One launch works on many tensors, so that small ones
// cost no launch each: its parameters are a table of them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cuda/gpu/address.h"
#include "backends/cuda/gpu/tensor_table.h"

namespace lamina::cuda {

// The threads of a block, and the elements of a chunk: a vector for each thread.
inline constexpr int kOptimizerThreads = 256, kUpdateChunk = 4 * kOptimizerThreads;

// The constants of AdamW, as all nodes of a launch have them.
struct AdamWConstants {
  double beta1, beta2, eps;
  friend bool operator==(const AdamWConstants&, const AdamWConstants&) = default;
};

// One tensor. Results may be in the memory of any of p, m and v.
struct AdamWTensor {
  gpu::Address p, g, m, v;           // f32[count]
  gpu::Address p_out, m_out, v_out;  // f32[count]
  gpu::Address copy;                 // bf16[count]: the new p; null: not wanted
  gpu::Address scalars;  // f32[5]: learning rate, scale of g, 1 - beta1^t, 1 - beta2^t, may change
  double weight_decay;
  std::int64_t count;
  bool by_vectors;
};

struct AdamWParams {
  AdamWConstants constants;
  TensorTable<AdamWTensor> table;
};

// A table p[rows, width] with the gradients g[slots, width] of the rows ids[slots]. A chunk has as
// many rows, or slots, as a block has groups of threads.
struct AdamWTable {
  AdamWTensor tensor;    // its g has the slots, its count is the table's
  gpu::Address copy_in;  // bf16[rows, width], with tensor.copy
  gpu::Address ids;      // i32[slots], rising; `rows` and above: no row
  std::int64_t rows, slots;
  int width;
  int threads_per_row;  // a power of two
  bool lazy;            // only rows of the list change
  bool by_slots;        // other rows stay as they are, in place
};

struct AdamWRowsParams {
  AdamWConstants constants;
  TensorTable<AdamWTable> table;
};

// A tensor whose squares are added: in chunks of a size that depends on `count` alone, then the
// sums of the chunks.
struct SquaresTensor {
  gpu::Address x;  // f32[count]
  gpu::Address y;  // f64[]
  std::int64_t count, chunk_elements;
  bool by_vectors;
};

struct SquaresParams {
  gpu::Address partials;  // f64[num_chunks]
  TensorTable<SquaresTensor> table;
};

// A tensor in which an element that is not finite is looked for, chunk by chunk.
struct SearchTensor {
  gpu::Address x;        // f32[count]
  gpu::Address squares;  // f64[]: the sum of x^2
  gpu::Address y;        // f64[2]
  std::int64_t count, chunk_elements;
};

struct SearchParams {
  gpu::Address partials;  // i64[num_chunks]
  TensorTable<SearchTensor> table;
};

static_assert(sizeof(AdamWParams) <= 4096 && sizeof(AdamWRowsParams) <= 4096 &&
              sizeof(SquaresParams) <= 4096 && sizeof(SearchParams) <= 4096);

}  // namespace lamina::cuda
