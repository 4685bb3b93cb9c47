// Products of rows in groups by tensor cores: mma_tile.h.
#pragma once

#include "backends/cuda/gemm/mma_tile.h"
#include "backends/cuda/gemm/row_tiles.h"

namespace lamina::cuda {

// Block x finds its tile of rows, y are tiles of columns. `weights` returns the operand of a group.
template <typename T, int kRows, bool kVectors, typename Weights>
LAMINA_GPU_FUNCTION void grouped_mma(const GroupedParams& p, Weights weights) {
  const RowTile tile = find_row_tile(p.rows, kRows, gpu::block_index());
  if (tile.count == 0) return;
  const int column = gpu::block_index_y() * kMmaColumns;
  MmaSums<kRows> sums;
  if (tile.group >= 0)
    multiply_mma<T>(MmaOperand<T, true, kVectors>{gpu::Global<const T>(p.x) + tile.first * p.k,
                                                  tile.count, p.k},
                    weights(tile.group), 0, column, p.k, sums);
  const gpu::Global<T> y = gpu::Global<T>(p.y) + tile.first * p.n;
  const bool has_bias = p.bias.value != 0 && tile.group >= 0;
  const bool vectors = p.n % 2 == 0 && p.y.value % (2 * sizeof(T)) == 0;
  for_each_mma(0, column, tile.count, p.n, sums, [&](int i, int j, float first, float second) {
    const bool both = j + 1 < p.n;
    if (has_bias) {
      const std::int64_t at = std::int64_t{tile.group} * p.n + j;
      first += static_cast<float>(load_number(p.bias, p.bias_type, at));
      if (both) second += static_cast<float>(load_number(p.bias, p.bias_type, at + 1));
    }
    store_pair(y, std::int64_t{i} * p.n + j, vectors, both, first, second);
  });
}

// kAlongK: w[g] is stored as [n, k].
template <typename T, int kRows, bool kAlongK, bool kVectors>
LAMINA_GPU_FUNCTION void grouped_mma(const GroupedParams& p) {
  grouped_mma<T, kRows, kVectors>(p, [&](int group) {
    return MmaOperand<T, kAlongK, kVectors>{
        gpu::Global<const T>(p.w) + std::int64_t{group} * p.n * p.k, kAlongK ? p.n : p.k,
        kAlongK ? p.k : p.n};
  });
}

// Blocks x and y compute a tile of inputs and of outputs, z a group. Sums are over rows.
template <typename T, bool kVectors>
LAMINA_GPU_FUNCTION void grouped_grad_mma(const GroupedGradParams& p) {
  constexpr int kRows = kMmaGradRows;
  const int group = gpu::block_index_z();
  const RowRange rows = rows_of_group(p.rows, group);
  const int depth = static_cast<int>(rows.end - rows.begin);
  const int input = gpu::block_index() * kMmaColumns;
  const int output = gpu::block_index_y() * kRows;
  MmaSums<kRows> sums;
  multiply_mma<T>(
      MmaOperand<T, false, kVectors>{gpu::Global<const T>(p.dy) + rows.begin * p.outputs, depth,
                                     p.outputs},
      MmaOperand<T, false, kVectors>{gpu::Global<const T>(p.x) + rows.begin * p.inputs, depth,
                                     p.inputs},
      output, input, depth, sums);
  const gpu::Global<float> dw =
      gpu::Global<float>(p.dw) + std::int64_t{group} * p.outputs * p.inputs;
  const bool vectors = p.inputs % 2 == 0 && p.dw.value % 8 == 0;
  for_each_mma(
      output, input, p.outputs, p.inputs, sums, [&](int o, int i, float first, float second) {
        store_pair(dw, std::int64_t{o} * p.inputs + i, vectors, i + 1 < p.inputs, first, second);
      });
}

}  // namespace lamina::cuda
