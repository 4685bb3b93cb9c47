// sinkhorn of small matrices, and its gradient.
//
// Bound by the latency of its chain of sums and divisions: a lane has a row of K = 4, 8 or 16
// numbers in registers, sums of rows need no other lane, sums of columns are shuffles among the K
// lanes of the matrix. Matrices are read and written once. The gradient repeats the forward pass
// and keeps the result and the sum of each division in the workspace.
#include "backends/cuda/gpu/row_groups.h"
#include "backends/cuda/sinkhorn/params.h"

namespace lamina::cuda {
namespace {

using gpu::Global;

// One matrix, row by row in K neighbouring lanes. Rows and columns from k on are 0 and stay so.
template <typename W, int K>
struct Matrix {
  int k;
  int row;  // of this lane
  bool has_row;

  LAMINA_GPU_FUNCTION W over_columns(W x) const {
    for (int mask = K / 2; mask > 0; mask /= 2) x += gpu::shuffle_xor(x, mask);
    return x;
  }

  // Replaces the row by its softmax.
  LAMINA_GPU_FUNCTION void softmax(W (&m)[K]) const {
    W top = m[0], sum = 0;
    LAMINA_GPU_UNROLL
    for (int j = 1; j < K; ++j)
      if (j < k) top = gpu::max(top, m[j]);
    LAMINA_GPU_UNROLL
    for (int j = 0; j < K; ++j) {
      m[j] = has_row && j < k ? gpu::exp(m[j] - top) : W{0};
      sum += m[j];
    }
    LAMINA_GPU_UNROLL
    for (int j = 0; j < K; ++j)
      if (has_row) m[j] /= sum;
  }

  LAMINA_GPU_FUNCTION void shift(W (&m)[K], W eps) const {
    LAMINA_GPU_UNROLL
    for (int j = 0; j < K; ++j)
      if (has_row && j < k) m[j] += eps;
  }

  // Divide by the sums of rows or of columns. Return the sum of this lane's row, or of its column.
  LAMINA_GPU_FUNCTION W divide_rows(W (&m)[K], W eps) const {
    W sum = eps;
    LAMINA_GPU_UNROLL
    for (int j = 0; j < K; ++j) sum += m[j];
    LAMINA_GPU_UNROLL
    for (int j = 0; j < K; ++j)
      if (has_row) m[j] /= sum;
    return sum;
  }
  LAMINA_GPU_FUNCTION W divide_columns(W (&m)[K], W eps) const {
    W mine = 0;
    LAMINA_GPU_UNROLL
    for (int j = 0; j < K; ++j) {
      const W sum = over_columns(m[j]) + eps;
      if (j < k) m[j] /= sum;
      if (j == row) mine = sum;
    }
    return mine;
  }

  // Replace dy by dm of a division m -> y with these sums.
  LAMINA_GPU_FUNCTION void back_rows(W (&d)[K], const W (&y)[K], W sum) const {
    W dot = 0;
    LAMINA_GPU_UNROLL
    for (int j = 0; j < K; ++j) dot += d[j] * y[j];
    LAMINA_GPU_UNROLL
    for (int j = 0; j < K; ++j)
      if (has_row && j < k) d[j] = (d[j] - dot) / sum;
  }
  LAMINA_GPU_FUNCTION void back_columns(W (&d)[K], const W (&y)[K], W mine) const {
    LAMINA_GPU_UNROLL
    for (int j = 0; j < K; ++j) {
      const W dot = over_columns(d[j] * y[j]);
      const W sum = gpu::shuffle(mine, gpu::lane() - row + j);
      if (has_row && j < k) d[j] = (d[j] - dot) / sum;
    }
  }
  LAMINA_GPU_FUNCTION void back_softmax(W (&d)[K], const W (&weights)[K]) const {
    W dot = 0;
    LAMINA_GPU_UNROLL
    for (int j = 0; j < K; ++j) dot += d[j] * weights[j];
    LAMINA_GPU_UNROLL
    for (int j = 0; j < K; ++j) d[j] = weights[j] * (d[j] - dot);
  }
};

// Calls body(matrix, offset of its row) for the matrices of this thread's lanes. All lanes of a
// warp take part to the end.
template <typename T, int K, typename Body>
LAMINA_GPU_FUNCTION void for_matrices(const SinkhornParams& p, Body body) {
  const int row = gpu::thread_index() % K;
  const std::int64_t stride = gpu::num_indices() / K;
  const std::int64_t of_warp = gpu::first_index() / gpu::kWarpSize * (gpu::kWarpSize / K);
  for (std::int64_t first = of_warp; first < p.count; first += stride) {
    const std::int64_t matrix = first + gpu::lane() / K;
    const bool has_row = matrix < p.count && row < p.k;
    body(Matrix<gpu::Wide<T>, K>{p.k, row, has_row}, (matrix * p.k + row) * p.k);
  }
}

template <int K, typename T>
LAMINA_GPU_FUNCTION void load_row(Global<const T> x, std::int64_t at, bool has_row, int k,
                                  gpu::Wide<T> (&m)[K]) {
  LAMINA_GPU_UNROLL
  for (int j = 0; j < K; ++j) m[j] = has_row && j < k ? gpu::load(x, at + j) : gpu::Wide<T>{0};
}
template <int K, typename T>
LAMINA_GPU_FUNCTION void store_row(Global<T> y, std::int64_t at, bool has_row, int k,
                                   const gpu::Wide<T> (&m)[K]) {
  LAMINA_GPU_UNROLL
  for (int j = 0; j < K; ++j)
    if (has_row && j < k) gpu::store(y, at + j, m[j]);
}

template <typename T, int K>
LAMINA_GPU_FUNCTION void sinkhorn(const SinkhornParams& p) {
  using W = gpu::Wide<T>;
  const W eps = static_cast<W>(p.eps);
  for_matrices<T, K>(p, [&](const Matrix<W, K>& matrix, std::int64_t at) {
    W m[K];
    load_row(Global<const T>(p.x), at, matrix.has_row, p.k, m);
    matrix.softmax(m);
    matrix.shift(m, eps);
    matrix.divide_columns(m, eps);
    for (int round = 1; round < p.iterations; ++round) {
      matrix.divide_rows(m, eps);
      matrix.divide_columns(m, eps);
    }
    store_row(Global<T>(p.y), at, matrix.has_row, p.k, m);
  });
}

template <typename T, int K>
LAMINA_GPU_FUNCTION void sinkhorn_grad(const SinkhornParams& p) {
  using W = gpu::Wide<T>;
  const W eps = static_cast<W>(p.eps);
  const Global<W> divisions(p.divisions);
  const std::int64_t me = gpu::first_index(), threads = gpu::num_indices();
  const int count = 2 * p.iterations - 1;
  const auto place = [&](int division, int i) {
    return (std::int64_t{division} * (K + 1) + i) * threads + me;
  };
  for_matrices<T, K>(p, [&](const Matrix<W, K>& matrix, std::int64_t at) {
    W weights[K], m[K];
    load_row(Global<const T>(p.x), at, matrix.has_row, p.k, weights);
    matrix.softmax(weights);
    LAMINA_GPU_UNROLL
    for (int j = 0; j < K; ++j) m[j] = weights[j];
    matrix.shift(m, eps);
    for (int i = 0; i < count; ++i) {
      W sum;
      if (i % 2 == 0)
        sum = matrix.divide_columns(m, eps);
      else
        sum = matrix.divide_rows(m, eps);
      divisions[place(i, K)] = sum;
      LAMINA_GPU_UNROLL
      for (int j = 0; j < K; ++j) divisions[place(i, j)] = m[j];
    }
    W d[K];
    load_row(Global<const T>(p.dy), at, matrix.has_row, p.k, d);
    for (int i = count - 1; i >= 0; --i) {
      W y[K];
      LAMINA_GPU_UNROLL
      for (int j = 0; j < K; ++j) y[j] = divisions[place(i, j)];
      const W sum = divisions[place(i, K)];
      if (i % 2 == 0)
        matrix.back_columns(d, y, sum);
      else
        matrix.back_rows(d, y, sum);
    }
    matrix.back_softmax(d, weights);
    store_row(Global<T>(p.y), at, matrix.has_row, p.k, d);
  });
}

}  // namespace

#define LAMINA_SINKHORN_KERNELS(dtype, T, K)                                                      \
  LAMINA_GPU_KERNEL_BOUNDS(sinkhorn_##K##_##dtype, SinkhornParams, 128, 1) { sinkhorn<T, K>(p); } \
  LAMINA_GPU_KERNEL_BOUNDS(sinkhorn_grad_##K##_##dtype, SinkhornParams, 128, 1) {                 \
    sinkhorn_grad<T, K>(p);                                                                       \
  }
#define LAMINA_SINKHORN_TYPES(K)                  \
  LAMINA_SINKHORN_KERNELS(f32, float, K)          \
  LAMINA_SINKHORN_KERNELS(bf16, gpu::bfloat16, K) \
  LAMINA_SINKHORN_KERNELS(f16, gpu::float16, K)   \
  LAMINA_SINKHORN_KERNELS(f64, double, K)
LAMINA_SINKHORN_TYPES(4)
LAMINA_SINKHORN_TYPES(8)
LAMINA_SINKHORN_TYPES(16)
#undef LAMINA_SINKHORN_TYPES
#undef LAMINA_SINKHORN_KERNELS

}  // namespace lamina::cuda
