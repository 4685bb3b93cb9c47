// Products of rows in groups by tensor cores, with matrices that are stored in blocks and rounded
// to bf16. Blocks are decoded on the way to shared memory.
#pragma once

#include "backends/cuda/gemm/grouped_mma.h"
#include "backends/cuda/stored/blocks.h"

namespace lamina::cuda {

template <typename Format>
struct StoredOperand {
  stored::StoredBytes at;
  int rows, width;
  std::int64_t row_bytes;

  static constexpr bool along_k = true;

  LAMINA_GPU_FUNCTION void copy(int row, int column, gpu::Shared<gpu::bfloat16> to) const {
    gpu::Vector<gpu::bfloat16, kMmaUnit> unit{};
    if (row < rows && column < width) {
      float values[kMmaUnit];
      Format::widen8(at + (row * row_bytes + column / Format::kValues * Format::kBytes),
                     column % Format::kValues, values);
      LAMINA_GPU_UNROLL
      for (int i = 0; i < kMmaUnit; ++i) unit.values[i] = gpu::narrow<gpu::bfloat16>(values[i]);
    }
    gpu::store_vector(to, 0, unit);
  }
};

// Tile: of 64 rows. Rows of x have whole units, because blocks have.
template <typename Tile, typename Format>
LAMINA_GPU_FUNCTION void grouped_stored(const GroupedParams& p) {
  const std::int64_t row_bytes = std::int64_t{p.k / Format::kValues} * Format::kBytes;
  grouped_tile<Tile, gpu::bfloat16, 64, true>(p, [&](int group) {
    return StoredOperand<Format>{stored::StoredBytes(p.w) + group * p.n * row_bytes, p.n, p.k,
                                 row_bytes};
  });
}

}  // namespace lamina::cuda
