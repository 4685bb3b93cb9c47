// Transposes through tiles of shared memory: rows of x are read and rows of y are written in the
// order of memory. Bound by memory; the tile's rows have one element more, so that columns are in
// all banks.
#include "backends/cuda/gpu/divide.h"
#include "backends/cuda/gpu/gpu.h"
#include "backends/cuda/layout/params.h"

namespace lamina::cuda {
namespace {

constexpr int kSide = 32, kWarps = 8;

template <typename T>
LAMINA_GPU_FUNCTION void transpose(const TransposeParams& p) {
  LAMINA_GPU_SHARED(T, tile, kSide * (kSide + 1));
  const int column = gpu::lane(), first_row = gpu::warp_index();
  for (std::int64_t t = gpu::block_index(); t < p.num_tiles; t += gpu::num_blocks()) {
    std::int64_t of_inner, of_across;
    std::int64_t plane =
        gpu::divide(gpu::divide(t, p.tiles_across, of_across), p.tiles_inner, of_inner);
    gpu::Global<const T> x(p.x);
    gpu::Global<T> y(p.y);
    for (int d = p.ndim - 1; d >= 0; --d) {
      std::int64_t i;
      plane = gpu::divide(plane, p.dims[d], i);
      x = x + i * p.x_strides[d];
      y = y + i * p.y_strides[d];
    }
    const std::int64_t i0 = of_inner * kSide, a0 = of_across * kSide;
    LAMINA_GPU_UNROLL
    for (int r = 0; r < kSide; r += kWarps) {
      const int row = first_row + r;
      if (i0 + row < p.inner && a0 + column < p.across)
        tile[row * (kSide + 1) + column] = x[(i0 + row) * p.x_stride + a0 + column];
    }
    gpu::sync();
    LAMINA_GPU_UNROLL
    for (int r = 0; r < kSide; r += kWarps) {
      const int row = first_row + r;
      if (a0 + row < p.across && i0 + column < p.inner)
        y[(a0 + row) * p.y_stride + i0 + column] = tile[column * (kSide + 1) + row];
    }
    gpu::sync();
  }
}

}  // namespace

LAMINA_GPU_KERNEL_BOUNDS(transpose_1, TransposeParams, 32 * kWarps, 4) {
  transpose<std::uint8_t>(p);
}
LAMINA_GPU_KERNEL_BOUNDS(transpose_2, TransposeParams, 32 * kWarps, 4) {
  transpose<std::uint16_t>(p);
}
LAMINA_GPU_KERNEL_BOUNDS(transpose_4, TransposeParams, 32 * kWarps, 4) {
  transpose<std::uint32_t>(p);
}
LAMINA_GPU_KERNEL_BOUNDS(transpose_8, TransposeParams, 32 * kWarps, 4) {
  transpose<std::uint64_t>(p);
}

}  // namespace lamina::cuda
