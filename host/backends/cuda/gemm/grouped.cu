// Products of rows in groups, each group with a separate matrix, in f32 and f64: plain_tile.h. The
// sums of the rows of each group, for gradients of biases, in all types.
#include "backends/cuda/gemm/params.h"
#include "backends/cuda/gemm/plain_tile.h"
#include "backends/cuda/gemm/row_tiles.h"

namespace lamina::cuda {
namespace {

// Block x finds its tile of rows, y are tiles of columns. kAlongK: w[g] is stored as [n, k].
template <typename T, bool kAlongK>
LAMINA_GPU_FUNCTION void grouped(const GroupedParams& p) {
  const RowTile tile = find_row_tile(p.rows, kPlainTile, gpu::block_index());
  if (tile.count == 0) return;
  const std::int64_t column = std::int64_t{gpu::block_index_y()} * kPlainTile;
  const gpu::Global<const T> x = gpu::Global<const T>(p.x) + tile.first * p.k;
  const gpu::Global<T> y = gpu::Global<T>(p.y) + tile.first * p.n;
  T sums[kPlainSide][kPlainSide] = {};
  if (tile.group >= 0) {
    const gpu::Global<const T> w = gpu::Global<const T>(p.w) + std::int64_t{tile.group} * p.n * p.k;
    multiply_plain(PlainOperand<T>{x, p.k, 1, tile.count},
                   PlainOperand<T>{w, kAlongK ? p.k : 1, kAlongK ? 1 : p.n, p.n}, 0, column, p.k,
                   sums);
  }
  const bool has_bias = p.bias.value != 0 && tile.group >= 0;
  for_each_plain(0, column, tile.count, p.n, sums, [&](std::int64_t i, std::int64_t j, T sum) {
    if (has_bias)
      sum += static_cast<T>(load_number(p.bias, p.bias_type, std::int64_t{tile.group} * p.n + j));
    gpu::store(y, i * p.n + j, sum);
  });
}

// Blocks x and y compute a tile of inputs and of outputs, z a group.
template <typename T>
LAMINA_GPU_FUNCTION void grouped_grad(const GroupedGradParams& p) {
  const int group = gpu::block_index_z();
  const RowRange rows = rows_of_group(p.rows, group);
  const std::int64_t input = std::int64_t{gpu::block_index()} * kPlainTile;
  const std::int64_t output = std::int64_t{gpu::block_index_y()} * kPlainTile;
  const gpu::Global<const T> x = gpu::Global<const T>(p.x) + rows.begin * p.inputs;
  const gpu::Global<const T> dy = gpu::Global<const T>(p.dy) + rows.begin * p.outputs;
  const gpu::Global<T> dw = gpu::Global<T>(p.dw) + std::int64_t{group} * p.outputs * p.inputs;
  T sums[kPlainSide][kPlainSide] = {};
  multiply_plain(PlainOperand<T>{dy, 1, p.outputs, p.outputs},
                 PlainOperand<T>{x, 1, p.inputs, p.inputs}, output, input, rows.end - rows.begin,
                 sums);
  for_each_plain(
      output, input, p.outputs, p.inputs, sums,
      [&](std::int64_t o, std::int64_t i, T sum) { gpu::store(dw, o * p.inputs + i, sum); });
}

// Block x computes 32 columns, y a group: lanes have adjacent columns, and each of 8 warps every
// eighth row. Bound by memory.
template <typename T>
LAMINA_GPU_FUNCTION void grouped_sums(const GroupedGradParams& p) {
  using W = gpu::Wide<T>;
  constexpr int kWarps = kPlainThreads / gpu::kWarpSize;
  LAMINA_GPU_SHARED(W, parts, kPlainThreads);
  const RowRange rows = rows_of_group(p.rows, gpu::block_index_y());
  const std::int64_t column = std::int64_t{gpu::block_index()} * gpu::kWarpSize + gpu::lane();
  const gpu::Global<const T> dy(p.dy);
  W sum = 0;
  if (column < p.outputs)
    for (std::int64_t row = rows.begin + gpu::warp_index(); row < rows.end; row += kWarps)
      sum += gpu::load(dy, row * p.outputs + column);
  parts[gpu::thread_index()] = sum;
  gpu::sync();
  if (gpu::warp_index() != 0 || column >= p.outputs) return;
  W all = 0;
  for (int warp = 0; warp < kWarps; ++warp) all += parts[warp * gpu::kWarpSize + gpu::lane()];
  gpu::store(gpu::Global<W>(p.dbias), std::int64_t{gpu::block_index_y()} * p.outputs + column, all);
}

}  // namespace

LAMINA_GPU_KERNEL_BOUNDS(grouped_f32, GroupedParams, kPlainThreads, 2) { grouped<float, true>(p); }
LAMINA_GPU_KERNEL_BOUNDS(grouped_f64, GroupedParams, kPlainThreads, 2) { grouped<double, true>(p); }
LAMINA_GPU_KERNEL_BOUNDS(grouped_dx_f32, GroupedParams, kPlainThreads, 2) {
  grouped<float, false>(p);
}
LAMINA_GPU_KERNEL_BOUNDS(grouped_dx_f64, GroupedParams, kPlainThreads, 2) {
  grouped<double, false>(p);
}
LAMINA_GPU_KERNEL_BOUNDS(grouped_dw_f32, GroupedGradParams, kPlainThreads, 2) {
  grouped_grad<float>(p);
}
LAMINA_GPU_KERNEL_BOUNDS(grouped_dw_f64, GroupedGradParams, kPlainThreads, 2) {
  grouped_grad<double>(p);
}
LAMINA_GPU_KERNEL(grouped_sums_f32, GroupedGradParams) { grouped_sums<float>(p); }
LAMINA_GPU_KERNEL(grouped_sums_bf16, GroupedGradParams) { grouped_sums<gpu::bfloat16>(p); }
LAMINA_GPU_KERNEL(grouped_sums_f16, GroupedGradParams) { grouped_sums<gpu::float16>(p); }
LAMINA_GPU_KERNEL(grouped_sums_f64, GroupedGradParams) { grouped_sums<double>(p); }

}  // namespace lamina::cuda
