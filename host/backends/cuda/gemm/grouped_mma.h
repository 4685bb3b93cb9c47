// Products of rows in groups by tensor cores. Tile is MmaTile of mma_tile.h, or WarpgroupTile of
// warpgroup_tile.h.
#pragma once

#include "backends/cuda/gemm/mma_tile.h"
#include "backends/cuda/gemm/row_tiles.h"

namespace lamina::cuda {

// Block x finds its tile of rows, y are tiles of columns. `weights` returns the operand of a group.
template <typename Tile, typename T, int kRows, bool kVectors, typename Weights>
LAMINA_GPU_FUNCTION void grouped_tile(const GroupedParams& p, Weights weights) {
  const RowTile tile = find_row_tile(p.rows, kRows, gpu::block_index());
  if (tile.count == 0) return;
  const int column = gpu::block_index_y() * kMmaColumns;
  Tile sums;
  if (tile.group >= 0)
    sums.multiply(MmaOperand<T, true, kVectors>{gpu::Global<const T>(p.x) + tile.first * p.k,
                                                tile.count, p.k},
                  weights(tile.group), 0, column, p.k);
  const gpu::Global<T> y = gpu::Global<T>(p.y) + tile.first * p.n;
  const bool has_bias = p.bias.value != 0 && tile.group >= 0;
  const bool vectors = p.n % 2 == 0 && p.y.value % (2 * sizeof(T)) == 0;
  sums.for_each(0, column, tile.count, p.n, [&](int i, int j, float first, float second) {
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
template <typename Tile, typename T, int kRows, bool kAlongK, bool kVectors>
LAMINA_GPU_FUNCTION void grouped_tile(const GroupedParams& p) {
  grouped_tile<Tile, T, kRows, kVectors>(p, [&](int group) {
    return MmaOperand<T, kAlongK, kVectors>{
        gpu::Global<const T>(p.w) + std::int64_t{group} * p.n * p.k, kAlongK ? p.n : p.k,
        kAlongK ? p.k : p.n};
  });
}

// Blocks x and y compute a tile of inputs and of outputs, z a group. Sums are over rows.
template <typename Tile, typename T, bool kVectors>
LAMINA_GPU_FUNCTION void grouped_grad_tile(const GroupedGradParams& p) {
  const int group = gpu::block_index_z();
  const RowRange rows = rows_of_group(p.rows, group);
  const int depth = static_cast<int>(rows.end - rows.begin);
  const int input = gpu::block_index() * kMmaColumns;
  const int output = gpu::block_index_y() * kMmaGradRows;
  Tile sums;
  sums.multiply(MmaOperand<T, false, kVectors>{gpu::Global<const T>(p.dy) + rows.begin * p.outputs,
                                               depth, p.outputs},
                MmaOperand<T, false, kVectors>{gpu::Global<const T>(p.x) + rows.begin * p.inputs,
                                               depth, p.inputs},
                output, input, depth);
  const gpu::Global<float> dw =
      gpu::Global<float>(p.dw) + std::int64_t{group} * p.outputs * p.inputs;
  const bool vectors = p.inputs % 2 == 0 && p.dw.value % 8 == 0;
  sums.for_each(output, input, p.outputs, p.inputs, [&](int o, int i, float first, float second) {
    store_pair(dw, std::int64_t{o} * p.inputs + i, vectors, i + 1 < p.inputs, first, second);
  });
}

}  // namespace lamina::cuda
