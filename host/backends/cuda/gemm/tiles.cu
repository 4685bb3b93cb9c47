// Products of the types that cuBLASLt does not combine, and sums over nothing: plain_tile.h.
#include "backends/cuda/gemm/bias_params.h"
#include "backends/cuda/gemm/params.h"
#include "backends/cuda/gemm/plain_tile.h"

namespace lamina::cuda {
namespace {

// Block x computes a tile of columns, y a tile of rows; z are the products of the batch.
template <typename In, typename Out>
LAMINA_GPU_FUNCTION void tiles(const TilesParams& p) {
  using W = gpu::Wide<In>;
  const std::int64_t row = (p.first_tile + gpu::block_index_y()) * kPlainTile;
  const std::int64_t column = std::int64_t{gpu::block_index()} * kPlainTile;
  for (std::int64_t batch = gpu::block_index_z(); batch < p.batch; batch += gpu::num_blocks_z()) {
    const gpu::Global<const In> a = gpu::Global<const In>(p.a) + batch * p.m * p.k;
    const gpu::Global<const In> b = gpu::Global<const In>(p.b) + batch * p.k * p.n;
    const gpu::Global<const Out> acc(p.acc);
    const gpu::Global<Out> y(p.y);
    const std::int64_t first = batch * p.m * p.n;
    W sums[kPlainSide][kPlainSide] = {};
    multiply_plain(PlainOperand<In>{a, p.a_transposed ? 1 : p.k, p.a_transposed ? p.m : 1, p.m},
                   PlainOperand<In>{b, p.b_transposed ? p.k : 1, p.b_transposed ? 1 : p.n, p.n},
                   row, column, p.k, sums);
    for_each_plain(row, column, p.m, p.n, sums, [&](std::int64_t i, std::int64_t j, W sum) {
      const std::int64_t at = first + i * p.n + j;
      if (acc) sum += static_cast<W>(gpu::load(acc, at));
      gpu::store(y, at, static_cast<gpu::Wide<Out>>(sum));
    });
  }
}

// From any address; the ready-made conversions need multiples of 16 bytes.
template <typename T>
LAMINA_GPU_FUNCTION void round_bias(const LinearBiasParams& p) {
  const gpu::Global<const float> x(p.x);
  const gpu::Global<T> y(p.y);
  for (std::int64_t i = gpu::first_index(); i < p.count; i += gpu::num_indices())
    gpu::store(y, i, x[i]);
}

}  // namespace

#define LAMINA_TILES(in, In)                                                   \
  LAMINA_GPU_KERNEL_BOUNDS(tiles_##in##_f32, TilesParams, kPlainThreads, 2) {  \
    tiles<In, float>(p);                                                       \
  }                                                                            \
  LAMINA_GPU_KERNEL_BOUNDS(tiles_##in##_bf16, TilesParams, kPlainThreads, 2) { \
    tiles<In, gpu::bfloat16>(p);                                               \
  }                                                                            \
  LAMINA_GPU_KERNEL_BOUNDS(tiles_##in##_f16, TilesParams, kPlainThreads, 2) {  \
    tiles<In, gpu::float16>(p);                                                \
  }                                                                            \
  LAMINA_GPU_KERNEL_BOUNDS(tiles_##in##_f64, TilesParams, kPlainThreads, 2) {  \
    tiles<In, double>(p);                                                      \
  }
LAMINA_TILES(f32, float)
LAMINA_TILES(bf16, gpu::bfloat16)
LAMINA_TILES(f16, gpu::float16)
LAMINA_TILES(f64, double)

LAMINA_GPU_KERNEL(linear_bias_bf16, LinearBiasParams) { round_bias<gpu::bfloat16>(p); }
LAMINA_GPU_KERNEL(linear_bias_f16, LinearBiasParams) { round_bias<gpu::float16>(p); }

}  // namespace lamina::cuda
