// A tile of a product by multiply and add, for types without tensor cores and for odd combinations
// of types. Bound by operations: each thread keeps 4 x 4 sums and reads 8 numbers from shared
// memory for 16 products. Sums are in the wide type, in rising order of k.
#pragma once

#include "backends/cuda/gemm/params.h"
#include "backends/cuda/gpu/gpu.h"

namespace lamina::cuda {

inline constexpr int kPlainDepth = 16;
inline constexpr int kPlainSide = 4;  // sums of a thread: kPlainSide^2, 16 apart
inline constexpr int kPlainStep = kPlainTile / kPlainSide;

// Element (i, k) of an operand is at i * outer + k * inner; there are `count` x `depth` of them.
template <typename T>
struct PlainOperand {
  gpu::Global<const T> at;
  std::int64_t outer, inner;
  std::int64_t count;
};

// Copies the tile that begins at (first, k) to shared memory, as [kPlainDepth][kPlainTile]; with
// zeros outside of the operand. Adjacent threads read adjacent numbers.
template <typename T, typename W>
LAMINA_GPU_FUNCTION void load_plain(const PlainOperand<T>& x, std::int64_t first, std::int64_t k,
                                    std::int64_t depth, gpu::Shared<W> to) {
  for (int n = gpu::thread_index(); n < kPlainTile * kPlainDepth; n += kPlainThreads) {
    const bool along_k = x.inner == 1;
    const int i = along_k ? n / kPlainDepth : n % kPlainTile;
    const int j = along_k ? n % kPlainDepth : n / kPlainTile;
    W value = 0;
    if (first + i < x.count && k + j < depth)
      value = static_cast<W>(gpu::load(x.at, (first + i) * x.outer + (k + j) * x.inner));
    to[j * (kPlainTile + 1) + i] = value;
  }
}

// Adds the products over `depth` of the tile of a and b that begins at (row, column).
template <typename T, typename W>
LAMINA_GPU_FUNCTION void multiply_plain(const PlainOperand<T>& a, const PlainOperand<T>& b,
                                        std::int64_t row, std::int64_t column, std::int64_t depth,
                                        W (&sums)[kPlainSide][kPlainSide]) {
  LAMINA_GPU_SHARED(W, a_tile, kPlainDepth * (kPlainTile + 1));
  LAMINA_GPU_SHARED(W, b_tile, kPlainDepth * (kPlainTile + 1));
  const int i = gpu::thread_index() / kPlainStep, j = gpu::thread_index() % kPlainStep;
  for (std::int64_t k = 0; k < depth; k += kPlainDepth) {
    load_plain(a, row, k, depth, a_tile);
    load_plain(b, column, k, depth, b_tile);
    gpu::sync();
    LAMINA_GPU_UNROLL
    for (int l = 0; l < kPlainDepth; ++l) {
      W x[kPlainSide], y[kPlainSide];
      LAMINA_GPU_UNROLL
      for (int s = 0; s < kPlainSide; ++s) {
        x[s] = a_tile[l * (kPlainTile + 1) + i + s * kPlainStep];
        y[s] = b_tile[l * (kPlainTile + 1) + j + s * kPlainStep];
      }
      LAMINA_GPU_UNROLL
      for (int r = 0; r < kPlainSide; ++r) LAMINA_GPU_UNROLL
      for (int c = 0; c < kPlainSide; ++c) sums[r][c] = gpu::fma(x[r], y[c], sums[r][c]);
    }
    gpu::sync();
  }
}

// Calls fn(row, column, sum) for the sums of this thread that are inside [rows, columns].
template <typename W, typename Fn>
LAMINA_GPU_FUNCTION void for_each_plain(std::int64_t row, std::int64_t column, std::int64_t rows,
                                        std::int64_t columns,
                                        const W (&sums)[kPlainSide][kPlainSide], Fn fn) {
  const int i = gpu::thread_index() / kPlainStep, j = gpu::thread_index() % kPlainStep;
  LAMINA_GPU_UNROLL
  for (int r = 0; r < kPlainSide; ++r) LAMINA_GPU_UNROLL
  for (int c = 0; c < kPlainSide; ++c) {
    const std::int64_t y = row + i + r * kPlainStep, x = column + j + c * kPlainStep;
    if (y < rows && x < columns) fn(y, x, sums[r][c]);
  }
}

}  // namespace lamina::cuda
