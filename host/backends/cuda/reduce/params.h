// Arguments of the kernels of reductions, logsumexp, cumsum and top_k.
#pragma once

#include <cstdint>

#include "backends/cuda/gpu/address.h"
#include "backends/cuda/gpu/tensor_table.h"
#include "core/dtype.h"
#include "core/shape.h"

namespace lamina::cuda {

// Dims of one kind, in the order of memory.
template <int kMost>
struct ReduceDimsOf {
  int count = 0;
  std::int64_t elements = 1;
  std::int64_t sizes[kMost] = {};
  std::int64_t strides[kMost] = {};  // in elements of x
};
using ReduceDims = ReduceDimsOf<kMaxDims>;

// y[kept] = the sum or the largest of x[kept, reduced].
template <int kMostDims>
struct ReduceParamsOf {
  gpu::Address x, y;
  gpu::Address totals;  // [splits, outputs] of f64 or i64: partial results; null: y is written
  ReduceDimsOf<kMostDims> kept, reduced;
  std::int64_t split_elements;  // of the reduced index per block_index_y()
  // Threads side by side, a power of two. By rows: of one output, along the reduced index. By
  // columns: of neighbouring outputs, each a vector of columns.
  int threads;
  std::int64_t tiles;  // by columns: of the innermost kept dim
  DType y_dtype;
};

using ReduceParams = ReduceParamsOf<kMaxDims>;

// One of several tensors. Its chunks are the blocks that it has alone, split by split.
inline constexpr int kMostGroupDims = 2;
struct ReduceTensor {
  ReduceParamsOf<kMostGroupDims> of;
  std::int64_t blocks;  // per split
};
struct ReduceGroupParams {
  TensorTable<ReduceTensor> table;
};

// y[i] = the sum or the largest of totals[split, i].
struct ReduceFinishParams {
  gpu::Address totals, y;
  std::int64_t outputs;
  int splits;
  DType y_dtype;
};

// A chunk has the outputs of a block.
struct ReduceFinishGroupParams {
  TensorTable<ReduceFinishParams> table;
};
static_assert(sizeof(ReduceGroupParams) <= 4096 && sizeof(ReduceFinishGroupParams) <= 4096);

// y[row] = log of the sum of exp(x[row, i]).
struct LogsumexpParams {
  gpu::Address x, y;
  std::int64_t num_rows, width;
  int threads_per_row;  // a power of two
};

// Sums along a dim of [outer, length, inner].
struct CumsumParams {
  gpu::Address x, y;
  std::int64_t num_runs;  // outer * inner
  std::int64_t length, inner;
  int segments;  // of a run in a block, by threads side by side
  bool exclusive, reverse;
};

// The k largest of each row and their indices.
struct TopKParams {
  gpu::Address x, values, ids;
  gpu::Address keys;  // of the sort: room for `padded` keys per block
  std::int64_t num_rows;
  int width, k;
  int padded;  // a power of two: k of the selection, width of the sort
};

}  // namespace lamina::cuda
