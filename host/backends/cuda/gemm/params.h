// Parameters of the kernels of products.
#pragma once

#include <cstdint>

#include "backends/cuda/gpu/address.h"

namespace lamina::cuda {

// The type of numbers that a kernel reads or writes once per result, so that it need not be
// compiled for each type.
enum class NumberType : std::int32_t { f32, bf16, f16, f64 };

// Rows in groups: group g has rows [offsets[g], offsets[g + 1]), limited to [0, num_rows] and to
// rising order. Without offsets all rows are one group.
struct RowGroups {
  gpu::Address offsets;  // int32
  std::int32_t num_groups;
  std::int64_t num_rows;
};

// ---- few_rows.cu --------------------------------------------------------------------------------

inline constexpr int kFewRows = 8;  // rows of x that share one pass over the weights
inline constexpr int kFewRowsThreads = 256;
inline constexpr int kFewRowsStep = 256;  // values of a row of w that a warp reads at a time
inline constexpr int kMaxMatrices = 6;    // of one launch

// One matrix: y[rows, n] = x[rows, k] w[g][n, k]^T (+ bias[g][n]).
struct FewRowsMatrix {
  gpu::Address w, bias, y;
  std::int64_t n;
  std::int32_t first_block;  // of the grid
  NumberType bias_type;
};

struct FewRowsParams {
  gpu::Address x;
  RowGroups rows;
  std::int64_t first_tile;  // of rows; block y computes tile first_tile + y
  std::int64_t k;
  std::int32_t chunk;      // values of a row of x in shared memory: a multiple of kFewRowsStep
  std::int32_t x_vectors;  // 1: each row of x begins at a multiple of 16 bytes
  NumberType y_type;
  std::int32_t num_matrices;
  FewRowsMatrix matrices[kMaxMatrices];
};

// ---- tiles.cu -----------------------------------------------------------------------------------

inline constexpr int kPlainTile = 64;  // rows and columns
inline constexpr int kPlainThreads = 256;

// Products of matrices that cuBLASLt does not take: y[m, n] = a b (+ acc), `batch` of them.
struct TilesParams {
  gpu::Address a, b, acc, y;
  std::int64_t first_tile;  // of rows; block y computes tile first_tile + y
  std::int64_t batch, m, n, k;
  std::int32_t a_transposed, b_transposed;  // a is stored as [k, m], b as [n, k]
};

// ---- fp8_operand.cu -----------------------------------------------------------------------------

// numbers[padded_rows, width] in e4m3 and scales[width / 128][padded_rows] in f32 of x[rows,
// width]. Rows of padding are zeros.
struct Fp8OperandParams {
  gpu::Address x, numbers, scales;
  std::int64_t rows, padded_rows, width;
  std::int32_t x_vectors;  // 1: x begins at a multiple of 8 bytes
};

// ---- grouped.cu, grouped_mma.cu, grouped_wgmma.cu -----------------------------------------------

inline constexpr int kMmaColumns = 128, kMmaGradRows = 128;
inline constexpr int kMmaThreads = 256;
inline constexpr int kMmaUnit = 8;  // numbers of 16 bits that are copied together

// Tiles by warpgroups: values of k in shared memory at a time, and places for them.
inline constexpr int kWarpgroupDepth = 64, kWarpgroupPlaces = 3;
template <int kRows>
inline constexpr int kWarpgroupSharedBytes =
    kWarpgroupPlaces*(kRows + kMmaColumns) * kWarpgroupDepth * 2;

// y[rows, n] = x[rows, k] times w[g], which is stored as [n, k] or, for gradients of x, as [k, n].
// Rows of no group are 0.
struct GroupedParams {
  gpu::Address x, w, bias, y;
  RowGroups rows;
  std::int32_t n, k;
  NumberType bias_type;
};

// dw[g][outputs, inputs] = dy^T x over the rows of group g; dbias[g][outputs] = the sums of dy.
struct GroupedGradParams {
  gpu::Address x, dy, dw, dbias;
  RowGroups rows;
  std::int32_t inputs, outputs;
};

}  // namespace lamina::cuda
