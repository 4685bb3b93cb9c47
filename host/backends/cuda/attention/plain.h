// Tiles of matrices in shared memory and their products without tensor cores, for f32, f64 and f16.
// Rows are padded with zeros to a multiple of 4 elements, plus 4 so that neighbouring rows are in
// different banks. Device code.
#pragma once

#include "backends/cuda/attention/place.h"

namespace lamina::cuda {

inline constexpr int kPlainThreads = 256;

template <typename W>
inline constexpr int kPlainVector = 16 / static_cast<int>(sizeof(W));

LAMINA_GPU_FUNCTION int plain_padded(int width) { return divide_up(width, 4) * 4; }

// Copies `count` rows of `width` elements, and sets the columns up to `end` and the rest of `rows`
// rows to 0. offset(i) is the place of row i, or negative for zeros.
template <typename T, typename W, typename Offset>
LAMINA_GPU_FUNCTION void load_plain_columns(const Tile<W>& to, int rows, int count, int width,
                                            int end, gpu::Global<const T> from, Offset offset) {
  for (int row = gpu::warp_index(); row < rows; row += gpu::num_warps()) {
    const std::int64_t at = row < count ? offset(row) : -1;
    for (int i = gpu::lane(); i < end; i += gpu::kWarpSize)
      to.data[row * to.stride + i] = at >= 0 && i < width ? gpu::load(from, at + i) : W{0};
  }
}

template <typename T, typename W, typename Offset>
LAMINA_GPU_FUNCTION void load_plain_rows(const Tile<W>& to, int rows, int count, int width,
                                         gpu::Global<const T> from, Offset offset) {
  load_plain_columns(to, rows, count, width, plain_padded(width), from, offset);
}

template <typename W>
LAMINA_GPU_FUNCTION void clear_plain_rows(const Tile<W>& to, int rows, int width) {
  const int end = plain_padded(width);
  for (int row = gpu::warp_index(); row < rows; row += gpu::num_warps())
    for (int i = gpu::lane(); i < end; i += gpu::kWarpSize) to.data[row * to.stride + i] = 0;
}

// s[i, j] = finish(i, j, a[i] . b[j]) for all rows of two tiles of kTile rows. A thread computes 2
// by 2 products, the same ones in every call.
template <int kTile, typename W, typename Finish>
LAMINA_GPU_FUNCTION void plain_products(const Tile<W>& s, const Tile<W>& a, const Tile<W>& b,
                                        int width, Finish finish) {
  constexpr int kHalf = kTile / 2, kN = kPlainVector<W>;
  const int end = plain_padded(width);
  for (int item = gpu::thread_index(); item < kHalf * kHalf; item += kPlainThreads) {
    const int i = item / kHalf, j = item % kHalf;
    W sums[2][2] = {};
    for (int h = 0; h < end; h += kN) {
      gpu::Vector<W, kN> of_a[2], of_b[2];
      LAMINA_GPU_UNROLL
      for (int n = 0; n < 2; ++n) {
        of_a[n] = gpu::load_vector<kN>(a.data, (i + n * kHalf) * a.stride + h);
        of_b[n] = gpu::load_vector<kN>(b.data, (j + n * kHalf) * b.stride + h);
      }
      LAMINA_GPU_UNROLL
      for (int n = 0; n < 4; ++n) LAMINA_GPU_UNROLL
      for (int e = 0; e < kN; ++e)
        sums[n / 2][n % 2] += of_a[n / 2].values[e] * of_b[n % 2].values[e];
    }
    LAMINA_GPU_UNROLL
    for (int n = 0; n < 4; ++n) {
      const int row = i + n / 2 * kHalf, column = j + n % 2 * kHalf;
      s.data[row * s.stride + column] = finish(row, column, sums[n / 2][n % 2]);
    }
  }
}

// g[i] = g[i] scale(i) + sum over j of s[i, j] b[j]. A thread computes 4 rows of a vector.
template <int kTile, typename W, typename Scale>
LAMINA_GPU_FUNCTION void plain_sums(const Tile<W>& g, const Tile<W>& s, const Tile<W>& b, int width,
                                    Scale scale) {
  constexpr int kN = kPlainVector<W>;
  const int pieces = plain_padded(width) / kN;
  for (int item = gpu::thread_index(); item < kTile / 4 * pieces; item += kPlainThreads) {
    const int i = item / pieces * 4, h = item % pieces * kN;
    gpu::Vector<W, kN> sums[4];
    LAMINA_GPU_UNROLL
    for (int n = 0; n < 4; ++n) {
      sums[n] = gpu::load_vector<kN>(g.data, (i + n) * g.stride + h);
      const W factor = scale(i + n);
      LAMINA_GPU_UNROLL
      for (int e = 0; e < kN; ++e) sums[n].values[e] *= factor;
    }
    for (int j = 0; j < kTile; ++j) {
      const gpu::Vector<W, kN> of_b = gpu::load_vector<kN>(b.data, j * b.stride + h);
      LAMINA_GPU_UNROLL
      for (int n = 0; n < 4; ++n) {
        const W factor = s.data[(i + n) * s.stride + j];
        LAMINA_GPU_UNROLL
        for (int e = 0; e < kN; ++e) sums[n].values[e] += factor * of_b.values[e];
      }
    }
    LAMINA_GPU_UNROLL
    for (int n = 0; n < 4; ++n) gpu::store_vector<kN>(g.data, (i + n) * g.stride + h, sums[n]);
  }
}

// Takes tiles from the dynamic shared memory.
template <typename W>
struct PlainMemory {
  int at = 0;
  LAMINA_GPU_FUNCTION Tile<W> take(int rows, int stride) {
    const Tile<W> tile{gpu::dynamic_shared<W>(at), stride};
    at += rows * stride * static_cast<int>(sizeof(W));
    return tile;
  }
};

}  // namespace lamina::cuda
