// Rows of tokens for experts. Bound by memory: each row is read and written once, up to 16 bytes
// per thread and access; a block has the columns of one token or row.
#include "backends/cuda/experts/params.h"
#include "backends/cuda/gpu/gpu.h"
#include "backends/cuda/gpu/search.h"
#include "backends/cuda/gpu/sums.h"

namespace lamina::cuda {
namespace {

// The places of a token's rows, found in the order by the threads of a block. [all threads]
LAMINA_GPU_FUNCTION void search_places(const CombineRowsParams& p, std::int64_t token,
                                       gpu::Shared<std::int32_t> found) {
  const gpu::Global<const std::int32_t> order(p.order);
  if (gpu::thread_index() < p.k) found[gpu::thread_index()] = 0;
  gpu::sync();
  for (std::int64_t r = gpu::thread_index(); r < p.rows; r += gpu::num_threads()) {
    const std::int64_t j = order[r] - token * p.k;
    if (j >= 0 && j < p.k) found[static_cast<int>(j)] = static_cast<std::int32_t>(r);
  }
  gpu::sync();
}

// Adds up N columns of a token's rows; place(j) is the row of assignment j.
template <typename T, int N, typename Place>
LAMINA_GPU_FUNCTION void combine_columns(const CombineRowsParams& p, std::int64_t token,
                                         Place place) {
  using W = gpu::Wide<T>;
  const gpu::Global<const T> x(p.x);
  const gpu::Global<const W> weights = gpu::Global<const W>(p.weights) + token * p.k;
  const gpu::Global<T> y = gpu::Global<T>(p.y) + token * p.width;
  for (std::int64_t column = std::int64_t{gpu::thread_index()} * N; column < p.width;
       column += std::int64_t{gpu::num_threads()} * N) {
    W sums[N] = {};
    for (int j = 0; j < p.k; ++j) {
      const W weight = weights[j];
      const auto row = gpu::load_vector<N>(x, place(j) * p.width + column);
      for (int i = 0; i < N; ++i) sums[i] = gpu::fma(weight, gpu::widen(row.values[i]), sums[i]);
    }
    gpu::Vector<T, N> out;
    for (int i = 0; i < N; ++i) out.values[i] = gpu::narrow<T>(sums[i]);
    gpu::store_vector<N>(y, column, out);
  }
}

template <typename T, int N>
LAMINA_GPU_FUNCTION void combine_rows(const CombineRowsParams& p) {
  LAMINA_GPU_SHARED(std::int32_t, found, kMaxSearchedPlaces);
  const gpu::Global<const std::int32_t> places(p.places);
  for (std::int64_t token = gpu::block_index(); token < p.tokens; token += gpu::num_blocks()) {
    if (places) {
      combine_columns<T, N>(p, token, [&](int j) { return std::int64_t{places[token * p.k + j]}; });
      continue;
    }
    search_places(p, token, found);
    combine_columns<T, N>(p, token, [&](int j) {
      const std::int32_t row = found[j];
      return std::int64_t{row};
    });
    gpu::sync();  // before the next search
  }
}

template <typename T, int N>
LAMINA_GPU_FUNCTION void combine_rows_grad(const CombineRowsGradParams& p) {
  using W = gpu::Wide<T>;
  const gpu::Global<const std::int32_t> order(p.order);
  const gpu::Global<W> dweights(p.dweights);
  for (std::int64_t r = gpu::block_index(); r < p.rows; r += gpu::num_blocks()) {
    const std::int32_t assignment = order[r];
    if (assignment < 0 || assignment >= p.rows) continue;  // never from group_rows
    const gpu::Global<const T> x = gpu::Global<const T>(p.x) + r * p.width;
    const gpu::Global<const T> dy = gpu::Global<const T>(p.dy) + assignment / p.k * p.width;
    const gpu::Global<T> dx = gpu::Global<T>(p.dx) + r * p.width;
    const W weight = gpu::Global<const W>(p.weights)[assignment];
    W sum = 0;
    for (std::int64_t column = std::int64_t{gpu::thread_index()} * N; column < p.width;
         column += std::int64_t{gpu::num_threads()} * N) {
      const auto value = gpu::load_vector<N>(x, column), gradient = gpu::load_vector<N>(dy, column);
      gpu::Vector<T, N> out;
      for (int i = 0; i < N; ++i) {
        const W g = gpu::widen(gradient.values[i]);
        sum = gpu::fma(gpu::widen(value.values[i]), g, sum);
        out.values[i] = gpu::narrow<T>(weight * g);
      }
      gpu::store_vector<N>(dx, column, out);
    }
    if (!dweights) continue;
    sum = gpu::block_sum(sum);
    if (gpu::thread_index() == 0) dweights[assignment] = sum;
  }
}

}  // namespace

LAMINA_GPU_KERNEL(group_rows_keys, CapacityParams) {
  const gpu::Global<const std::int32_t> ids(p.ids);
  const gpu::Global<std::int32_t> keys(p.keys);
  for (std::int64_t i = gpu::first_index(); i < p.count; i += gpu::num_indices()) {
    const std::int32_t id = ids[i], group = id >= 0 && id < p.groups ? id : p.groups;
    keys[i] = static_cast<std::int32_t>(i / p.per_element) * (p.groups + 1) + group;
  }
}

// Assignments with a key are adjacent and in order: those from the capacity on leave their group.
LAMINA_GPU_KERNEL(group_rows_kept, CapacityParams) {
  const gpu::Global<const std::int32_t> keys(p.keys), places(p.places);
  const gpu::Global<std::int32_t> kept(p.kept);
  for (std::int64_t i = gpu::first_index(); i < p.count; i += gpu::num_indices()) {
    const std::int32_t first = gpu::lower_bound(keys, static_cast<std::int32_t>(i), keys[i]);
    kept[places[i]] = i - first < p.capacity ? keys[i] % (p.groups + 1) : p.groups;
  }
}

LAMINA_GPU_KERNEL(combine_rows_invert, CombineRowsParams) {
  const gpu::Global<const std::int32_t> order(p.order);
  const gpu::Global<std::int32_t> places(p.places);
  for (std::int64_t r = gpu::first_index(); r < p.rows; r += gpu::num_indices()) {
    const std::int32_t assignment = order[r];
    if (assignment >= 0 && assignment < p.rows) places[assignment] = static_cast<std::int32_t>(r);
  }
}

#define LAMINA_COMBINE_KERNELS(type, T, N)                                            \
  LAMINA_GPU_KERNEL_BOUNDS(combine_rows_##type, CombineRowsParams, 256, 4) {          \
    combine_rows<T, N>(p);                                                            \
  }                                                                                   \
  LAMINA_GPU_KERNEL_BOUNDS(combine_rows_grad_##type, CombineRowsGradParams, 256, 4) { \
    combine_rows_grad<T, N>(p);                                                       \
  }
LAMINA_COMBINE_KERNELS(f32, float, 1)
LAMINA_COMBINE_KERNELS(f32x4, float, 4)
LAMINA_COMBINE_KERNELS(bf16, gpu::bfloat16, 1)
LAMINA_COMBINE_KERNELS(bf16x8, gpu::bfloat16, 8)
LAMINA_COMBINE_KERNELS(f16, gpu::float16, 1)
LAMINA_COMBINE_KERNELS(f64, double, 1)
#undef LAMINA_COMBINE_KERNELS

}  // namespace lamina::cuda
