// Tiles of matrices in shared memory, and their products by tensor cores. Device code.
//
// A tile has a row for each query or key. Rows are 16-byte aligned and padded with zeros to a
// multiple of 16 elements, plus 8 so that the rows that one load_matrix reads are in different
// banks.
#pragma once

#include "backends/cuda/attention/place.h"
#include "backends/cuda/gpu/tensor_cores.h"

namespace lamina::cuda {

LAMINA_GPU_FUNCTION int padded(int width) { return divide_up(width, 16) * 16; }

// Copies elements [0, width) of `count` rows to columns [first, first + width) of a tile, and sets
// the columns up to `end` and the rows up to `rows` to 0. offset(i) is the place of row i, or
// negative for zeros. Copies of vectors are asynchronous: the caller commits and waits.
template <typename T, typename Offset>
LAMINA_GPU_FUNCTION void copy_rows(const Tile<T>& to, int rows, int count, int first, int width,
                                   int end, gpu::Global<const T> from, bool vectors,
                                   Offset offset) {
  constexpr int kPiece = 8, kLanes = 8;  // lanes that copy a row together
  for (int row = gpu::thread_index() / kLanes; row < rows; row += gpu::num_threads() / kLanes) {
    const std::int64_t at = row < count ? offset(row) : -1;
    const bool real = at >= 0;
    for (int i = gpu::thread_index() % kLanes * kPiece; first + i < end; i += kLanes * kPiece) {
      const gpu::Shared<T> piece = to.data + (row * to.stride + first + i);
      if (vectors) {
        if (real && i < width)
          gpu::copy_async<16>(piece, from + (at + i));
        else
          gpu::store_vector<kPiece>(piece, 0, gpu::Vector<T, kPiece>{});
        continue;
      }
      for (int j = 0; j < kPiece && first + i + j < end; ++j)
        piece[j] = real && i + j < width ? T(from[at + i + j]) : T{};
    }
  }
}

// c[16, 8 kN] += a[16, width] b[8 kN, width]^T.
template <int kN, typename T>
LAMINA_GPU_FUNCTION void multiply_rows(float (&c)[kN][4], const Tile<T>& a, int a_row,
                                       const Tile<T>& b, int b_row, int width) {
  const int lane = gpu::lane();
  const int a_at = (a_row + lane % 16) * a.stride + lane / 16 * 8;
  const int b_at = (b_row + lane % 8 + (kN > 1 ? lane / 16 * 8 : 0)) * b.stride + lane / 8 % 2 * 8;
  for (int k = 0; k < width; k += 16) {
    std::uint32_t of_a[4];
    gpu::load_matrix(of_a, a.data + (a_at + k));
    LAMINA_GPU_UNROLL
    for (int n = 0; n < kN; n += 2) {
      std::uint32_t of_b[4];
      gpu::load_matrix(of_b, b.data + (b_at + n * 8 * b.stride + k));
      gpu::mma_16x8x16<T>(c[n], of_a, {of_b[0], of_b[1]});
      if (n + 1 < kN) gpu::mma_16x8x16<T>(c[n + 1], of_a, {of_b[2], of_b[3]});
    }
  }
}

// c[16, width] += a[16, 16] b[16, width], for rows b_row ... of b and columns from b_column on.
template <int kN, typename T>
LAMINA_GPU_FUNCTION void multiply_step(float (&c)[kN][4], const std::uint32_t (&a)[4],
                                       const Tile<T>& b, int b_row, int b_column, int width) {
  const int lane = gpu::lane();
  const int b_at = (b_row + lane % 8 + lane / 8 % 2 * 8) * b.stride + b_column + lane / 16 * 8;
  LAMINA_GPU_UNROLL
  for (int n = 0; n < kN; n += 2) {
    if (n * 8 >= width) continue;
    std::uint32_t of_b[4];
    gpu::load_matrix<true>(of_b, b.data + (b_at + n * 8));
    gpu::mma_16x8x16<T>(c[n], a, {of_b[0], of_b[1]});
    gpu::mma_16x8x16<T>(c[n + 1], a, {of_b[2], of_b[3]});
  }
}

template <typename T>
LAMINA_GPU_FUNCTION std::uint32_t pair_of(float low, float high) {
  return std::uint32_t{gpu::narrow<T>(low).bits} | std::uint32_t{gpu::narrow<T>(high).bits} << 16;
}

// The sums c of columns [16 step, 16 step + 16) as operand a of a product.
template <typename T, typename Sums>
LAMINA_GPU_FUNCTION void operand_of(std::uint32_t (&a)[4], Sums& c, int step) {
  a[0] = pair_of<T>(c[2 * step][0], c[2 * step][1]);
  a[1] = pair_of<T>(c[2 * step][2], c[2 * step][3]);
  a[2] = pair_of<T>(c[2 * step + 1][0], c[2 * step + 1][1]);
  a[3] = pair_of<T>(c[2 * step + 1][2], c[2 * step + 1][3]);
}

// Row and column of element i of c[n] of this lane.
LAMINA_GPU_FUNCTION int row_in(int i) { return gpu::lane() / 4 + i / 2 * 8; }
LAMINA_GPU_FUNCTION int column_in(int n, int i) { return n * 8 + gpu::lane() % 4 * 2 + i % 2; }

// Stores sums as rounded numbers, for other warps.
template <typename T, int kN>
LAMINA_GPU_FUNCTION void store_rows(const Tile<T>& to, int row, int column,
                                    const float (&c)[kN][4]) {
  LAMINA_GPU_UNROLL
  for (int n = 0; n < kN; ++n) LAMINA_GPU_UNROLL
  for (int half = 0; half < 2; ++half) {
    gpu::Vector<T, 2> pair{gpu::narrow<T>(c[n][2 * half]), gpu::narrow<T>(c[n][2 * half + 1])};
    gpu::store_vector<2>(to.data, (row + row_in(2 * half)) * to.stride + column + column_in(n, 0),
                         pair);
  }
}

// Stores two neighbouring numbers of a row, if their columns are below `width`.
template <typename Out>
LAMINA_GPU_FUNCTION void store_pair(const gpu::Global<Out>& row, int column, int width, float low,
                                    float high) {
  if (column + 1 < width && width % 2 == 0) {
    gpu::store_vector<2>(row, column,
                         gpu::Vector<Out, 2>{gpu::narrow<Out>(low), gpu::narrow<Out>(high)});
    return;
  }
  if (column < width) gpu::store(row, column, low);
  if (column + 1 < width) gpu::store(row, column + 1, high);
}

// Combines a number of the four lanes of a row.
template <typename Op>
LAMINA_GPU_FUNCTION float combine_lanes(float x, Op op) {
  x = op(x, gpu::shuffle_xor(x, 1));
  return op(x, gpu::shuffle_xor(x, 2));
}

}  // namespace lamina::cuda
