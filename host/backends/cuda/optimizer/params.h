// Arguments of the kernels of the optimizer.
#pragma once

#include <cstdint>

#include "backends/cuda/gpu/address.h"

namespace lamina::cuda {

// The constants of AdamW, as a node has them.
struct AdamWConstants {
  double beta1, beta2, eps, weight_decay;
};

// One tensor. Results may be in the memory of any of p, m and v.
struct AdamWTensor {
  gpu::Address p, g, m, v;           // f32[count]
  gpu::Address p_out, m_out, v_out;  // f32[count]
  gpu::Address copy;                 // bf16[count]: the new p; null: not wanted
  std::int64_t count;
};

struct AdamWParams {
  AdamWConstants constants;
  gpu::Address scalars;  // f32[5]: learning rate, scale of g, 1 - beta1^t, 1 - beta2^t, may change
  AdamWTensor tensor;
};

// A table p[rows, width] with the gradients g[slots, width] of the rows ids[slots].
struct AdamWRowsParams {
  AdamWConstants constants;
  gpu::Address scalars;
  AdamWTensor table;     // its g has the slots, its count is the table's
  gpu::Address copy_in;  // bf16[rows, width], with table.copy
  gpu::Address ids;      // i32[slots], rising; `rows` and above: no row
  std::int64_t rows, slots;
  int width;
  int threads_per_row;  // a power of two
  bool lazy;            // only rows of the list change
};

// Partial results of chunks of x[count], one per block, then of all.
struct ChunksParams {
  gpu::Address x;         // f32[count]
  gpu::Address squares;   // f64[]: the sum of x^2, for the search
  gpu::Address partials;  // f64[chunks], or i64[chunks] for the search
  gpu::Address y;         // f64[], or f64[2] for the search
  std::int64_t count, chunk_elements;
  int chunks;
};

}  // namespace lamina::cuda
