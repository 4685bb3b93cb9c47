// logsumexp over the last dims.
//
// Bound by memory: a group of threads reads a row once, by vectors of 16 bytes. Each thread keeps
// the largest element so far and the sum of exp(x - largest), Milakov & Gimelshein 2018, algorithm
// 3; the group adds up the sums, brought to the largest element of all.
#include "backends/cuda/gpu/row_groups.h"
#include "backends/cuda/reduce/params.h"

namespace lamina::cuda {
namespace {

using gpu::Global;
using gpu::RowGroup;

template <typename W>
struct ExpSum {
  W largest, sum = 0;

  // exp(x - largest), also if both are infinite.
  LAMINA_GPU_FUNCTION W term(W x) const { return x == largest ? W{1} : gpu::exp(x - largest); }

  // A first element of -infinity would give exp(NaN).
  LAMINA_GPU_FUNCTION void raise(W to) {
    if (to > largest) {
      sum *= gpu::exp(largest - to);
      largest = to;
    }
  }
};

template <typename T, int N>
LAMINA_GPU_FUNCTION void logsumexp(const LogsumexpParams& p) {
  using W = gpu::Wide<T>;
  LAMINA_GPU_SHARED(W, scratch, gpu::kGroupScratch<1>);
  const W least = -static_cast<W>(gpu::infinity());
  const RowGroup g = gpu::row_group(p.threads_per_row);
  const std::int64_t step = std::int64_t{gpu::num_blocks()} * g.count;
  for (std::int64_t first = std::int64_t{gpu::block_index()} * g.count; first < p.num_rows;
       first += step) {
    const std::int64_t row = first + g.index;
    const std::int64_t width = row < p.num_rows ? p.width : 0;
    const Global<const T> x = Global<const T>(p.x) + row * p.width;
    ExpSum<W> mine{.largest = least};
    for (std::int64_t i = std::int64_t{g.lane} * N; i < width; i += std::int64_t{g.threads} * N) {
      W v[N];
      gpu::load_numbers(x, i, v);
      W top = v[0];
      LAMINA_GPU_UNROLL
      for (int j = 1; j < N; ++j) top = gpu::max(top, v[j]);
      mine.raise(top);
      LAMINA_GPU_UNROLL
      for (int j = 0; j < N; ++j)
        if (v[j] != least) mine.sum += mine.term(v[j]);
    }
    W top[1] = {mine.largest};
    gpu::group_combine(g, top, gpu::MaxOf{}, scratch);
    mine.raise(top[0]);
    const W sum = gpu::group_sum(g, mine.sum, scratch);
    if (width > 0 && g.lane == 0) gpu::store(Global<T>(p.y), row, gpu::log(sum) + top[0]);
  }
}

}  // namespace

#define LAMINA_LOGSUMEXP_KERNELS(dtype, T)                                          \
  LAMINA_GPU_KERNEL_BOUNDS(logsumexp_##dtype##_vectors, LogsumexpParams, 512, 1) {  \
    logsumexp<T, (16 / sizeof(T))>(p);                                              \
  }                                                                                 \
  LAMINA_GPU_KERNEL_BOUNDS(logsumexp_##dtype##_elements, LogsumexpParams, 512, 1) { \
    logsumexp<T, 1>(p);                                                             \
  }
LAMINA_LOGSUMEXP_KERNELS(f32, float)
LAMINA_LOGSUMEXP_KERNELS(bf16, gpu::bfloat16)
LAMINA_LOGSUMEXP_KERNELS(f16, gpu::float16)
LAMINA_LOGSUMEXP_KERNELS(f64, double)
#undef LAMINA_LOGSUMEXP_KERNELS

}  // namespace lamina::cuda
