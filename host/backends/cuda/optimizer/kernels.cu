// AdamW and what training measures of gradients: sums of squares, elements that are not finite.
//
// Bound by memory: AdamW reads four tensors and writes three or four, in vectors of 16 bytes. A
// launch works on many tensors, in chunks of equal size: small tensors share the GPU, and a large
// one fills it. A block computes the numbers of a step once per tensor.
#include "backends/cuda/gpu/chunks.h"
#include "backends/cuda/gpu/row_groups.h"
#include "backends/cuda/gpu/search.h"
#include "backends/cuda/optimizer/params.h"

namespace lamina::cuda {
namespace {

using gpu::Global;
using gpu::RowGroup;

// The numbers of a step, rounded to f32 once.
struct Numbers {
  float grad_scale, decay, beta1, rest1, beta2, rest2, step_size, root_scale, eps;
  bool may_change;
};

LAMINA_GPU_FUNCTION Numbers numbers_of(const AdamWConstants& a, const AdamWTensor& t) {
  const Global<const float> scalars(t.scalars);
  const double lr = static_cast<double>(scalars[0]);
  return {.grad_scale = scalars[1],
          .decay = static_cast<float>(1 - lr * t.weight_decay),
          .beta1 = static_cast<float>(a.beta1),
          .rest1 = static_cast<float>(1 - a.beta1),
          .beta2 = static_cast<float>(a.beta2),
          .rest2 = static_cast<float>(1 - a.beta2),
          .step_size = static_cast<float>(lr / static_cast<double>(scalars[2])),
          .root_scale = static_cast<float>(1 / gpu::sqrt(static_cast<double>(scalars[3]))),
          .eps = static_cast<float>(a.eps),
          .may_change = scalars[4] != 0.0f};
}

// Computes them in one thread of the block for all.
LAMINA_GPU_FUNCTION Numbers shared_numbers(const AdamWConstants& a, const AdamWTensor& t) {
  LAMINA_GPU_SHARED(Numbers, numbers, 1);
  gpu::sync();  // the numbers of the tensor before have been read
  if (gpu::thread_index() == 0) numbers[0] = numbers_of(a, t);
  gpu::sync();
  return numbers[0];
}

// The memory of a tensor.
struct State {
  Global<const float> p, m, v;
  Global<float> p_out, m_out, v_out;
  Global<gpu::bfloat16> copy;

  LAMINA_GPU_FUNCTION explicit State(const AdamWTensor& t)
      : p(t.p), m(t.m), v(t.v), p_out(t.p_out), m_out(t.m_out), v_out(t.v_out), copy(t.copy) {}
};

// Updates elements [i, i + N) with the gradients g. Reads all operands before it writes a result.
template <int N>
LAMINA_GPU_FUNCTION void step(const Numbers& a, const State& s, std::int64_t i,
                              const float (&g)[N]) {
  float p[N], m[N], v[N];
  gpu::load_numbers(s.p, i, p);
  gpu::load_numbers(s.m, i, m);
  gpu::load_numbers(s.v, i, v);
  LAMINA_GPU_UNROLL
  for (int j = 0; j < N; ++j) {
    const float gradient = g[j] * a.grad_scale;
    m[j] = gpu::fma(m[j], a.beta1, gradient * a.rest1);
    v[j] = gpu::fma(v[j], a.beta2, gradient * gradient * a.rest2);
    const float divisor = gpu::fma(gpu::sqrt(v[j]), a.root_scale, a.eps);
    p[j] = p[j] * a.decay - a.step_size * (m[j] / divisor);
  }
  gpu::store_numbers(s.m_out, i, m);
  gpu::store_numbers(s.v_out, i, v);
  gpu::store_numbers(s.p_out, i, p);
  if (s.copy) gpu::store_numbers(s.copy, i, p);
}

// Copies elements [i, i + N); the copy in bf16 is rounded from p, or taken from `copy_in`.
template <int N>
LAMINA_GPU_FUNCTION void keep(const State& s, Global<const gpu::bfloat16> copy_in, std::int64_t i) {
  float p[N], m[N], v[N], rounded[N] = {};
  gpu::load_numbers(s.p, i, p);
  gpu::load_numbers(s.m, i, m);
  gpu::load_numbers(s.v, i, v);
  if (copy_in) gpu::load_numbers(copy_in, i, rounded);
  gpu::store_numbers(s.m_out, i, m);
  gpu::store_numbers(s.v_out, i, v);
  gpu::store_numbers(s.p_out, i, p);
  if (!s.copy) return;
  if (copy_in)
    gpu::store_numbers(s.copy, i, rounded);
  else
    gpu::store_numbers(s.copy, i, p);
}

// Updates elements [begin, end) of a tensor, N at a time.
template <int N>
LAMINA_GPU_FUNCTION void adamw_range(const Numbers& numbers, const AdamWTensor& t,
                                     std::int64_t begin, std::int64_t end) {
  const State s(t);
  const Global<const float> gradients(t.g);
  for (std::int64_t i = begin + gpu::thread_index() * N; i < end; i += kOptimizerThreads * N) {
    if (!numbers.may_change) {
      keep<N>(s, {}, i);
      continue;
    }
    float g[N];
    gpu::load_numbers(gradients, i, g);
    step(numbers, s, i, g);
  }
}

LAMINA_GPU_FUNCTION void adamw_tensors(const AdamWParams& p) {
  gpu::for_chunks_of_block(p.table, [&](int tensor, std::int64_t first, std::int64_t past) {
    const AdamWTensor& t = p.table.tensors[tensor];
    const Numbers numbers = shared_numbers(p.constants, t);
    const std::int64_t begin = first * kUpdateChunk, end = gpu::min(past * kUpdateChunk, t.count);
    if (t.by_vectors)
      adamw_range<4>(numbers, t, begin, end);
    else
      adamw_range<1>(numbers, t, begin, end);
  });
}

// Updates rows [begin, end), a group of threads per row. All of its threads look up the row, which
// the caches serve; the loads of other groups hide its latency.
template <int N>
LAMINA_GPU_FUNCTION void update_rows(const Numbers& numbers, const AdamWTable& t,
                                     std::int64_t begin, std::int64_t end) {
  const State s(t.tensor);
  const Global<const gpu::bfloat16> copy_in(t.copy_in);
  const Global<const float> gradients(t.tensor.g);
  const Global<const std::int32_t> ids(t.ids);
  const RowGroup g = gpu::row_group(t.threads_per_row);
  for (std::int64_t row = begin + g.index; row < end; row += g.count) {
    const std::int64_t slot = gpu::lower_bound(ids, t.slots, row);
    const bool is_listed = slot < t.slots && ids[slot] == row;
    const bool changes = numbers.may_change && (is_listed || !t.lazy);
    for (int c = g.lane * N; c < t.width; c += g.threads * N) {
      const std::int64_t i = row * t.width + c;
      if (!changes) {
        keep<N>(s, copy_in, i);
        continue;
      }
      float gradient[N] = {};
      if (is_listed) gpu::load_numbers(gradients, slot * t.width + c, gradient);
      step(numbers, s, i, gradient);
    }
  }
}

// Updates the rows of slots [begin, end), a group of threads per slot.
template <int N>
LAMINA_GPU_FUNCTION void update_slots(const Numbers& numbers, const AdamWTable& t,
                                      std::int64_t begin, std::int64_t end) {
  if (!numbers.may_change) return;
  const State s(t.tensor);
  const Global<const float> gradients(t.tensor.g);
  const Global<const std::int32_t> ids(t.ids);
  const RowGroup g = gpu::row_group(t.threads_per_row);
  for (std::int64_t slot = begin + g.index; slot < end; slot += g.count) {
    const std::int64_t row = ids[slot];
    if (row >= t.rows) continue;
    for (int c = g.lane * N; c < t.width; c += g.threads * N) {
      float gradient[N];
      gpu::load_numbers(gradients, slot * t.width + c, gradient);
      step(numbers, s, row * t.width + c, gradient);
    }
  }
}

template <int N>
LAMINA_GPU_FUNCTION void update_table(const Numbers& numbers, const AdamWTable& t,
                                      std::int64_t begin, std::int64_t end) {
  if (t.by_slots)
    update_slots<N>(numbers, t, begin, gpu::min(end, t.slots));
  else
    update_rows<N>(numbers, t, begin, gpu::min(end, t.rows));
}

LAMINA_GPU_FUNCTION void adamw_tables(const AdamWRowsParams& p) {
  gpu::for_chunks_of_block(p.table, [&](int tensor, std::int64_t first, std::int64_t past) {
    const AdamWTable& t = p.table.tensors[tensor];
    const Numbers numbers = shared_numbers(p.constants, t.tensor);
    const std::int64_t rows = kOptimizerThreads / t.threads_per_row;
    if (t.tensor.by_vectors)
      update_table<4>(numbers, t, first * rows, past * rows);
    else
      update_table<1>(numbers, t, first * rows, past * rows);
  });
}

// Squares of f32 are exact in f64. GPUs for servers multiply f64 faster than memory delivers f32.
template <int N>
LAMINA_GPU_FUNCTION double sum_squares(const SquaresTensor& t, std::int64_t begin,
                                       std::int64_t end) {
  const Global<const float> x(t.x);
  double sums[N] = {};
  for (std::int64_t i = begin + gpu::thread_index() * N; i < end; i += kOptimizerThreads * N) {
    float v[N];
    gpu::load_numbers(x, i, v);
    LAMINA_GPU_UNROLL
    for (int j = 0; j < N; ++j)
      sums[j] = gpu::fma(static_cast<double>(v[j]), static_cast<double>(v[j]), sums[j]);
  }
  double sum = sums[0];
  for (int j = 1; j < N; ++j) sum += sums[j];
  return sum;
}

// A block has one chunk.
LAMINA_GPU_FUNCTION void square_chunks(const SquaresParams& p) {
  const Global<double> partials(p.partials);
  gpu::for_chunks_of_block(p.table, [&](int tensor, std::int64_t chunk, std::int64_t) {
    const SquaresTensor& t = p.table.tensors[tensor];
    const std::int64_t begin = chunk * t.chunk_elements;
    const std::int64_t end = gpu::min(begin + t.chunk_elements, t.count);
    double sum = t.by_vectors ? sum_squares<4>(t, begin, end) : sum_squares<1>(t, begin, end);
    sum = gpu::block_sum(sum);
    if (gpu::thread_index() == 0) partials[gpu::block_index()] = sum;
  });
}

// A block per tensor.
LAMINA_GPU_FUNCTION void add_squares(const SquaresParams& p) {
  const int tensor = gpu::block_index(), past = gpu::past_chunks(p.table, tensor);
  const Global<const double> partials(p.partials);
  double sum = 0;
  for (int i = p.table.first_chunks[tensor] + gpu::thread_index(); i < past; i += kOptimizerThreads)
    sum += partials[i];
  sum = gpu::block_sum(sum);
  if (gpu::thread_index() == 0) Global<double>(p.table.tensors[tensor].y)[0] = sum;
}

LAMINA_GPU_FUNCTION bool is_finite(double x) { return x - x == 0; }

// The index of the first element of each chunk that is not finite, or `count`; without a look at x
// if the sum of squares is finite. A block has one chunk.
LAMINA_GPU_FUNCTION void search_chunks(const SearchParams& p) {
  gpu::for_chunks_of_block(p.table, [&](int tensor, std::int64_t chunk, std::int64_t) {
    const SearchTensor& t = p.table.tensors[tensor];
    const Global<const double> squares(t.squares);
    if (is_finite(squares[0])) return;
    const Global<const float> x(t.x);
    const std::int64_t begin = chunk * t.chunk_elements;
    const std::int64_t end = gpu::min(begin + t.chunk_elements, t.count);
    std::int64_t found = t.count;
    for (std::int64_t i = begin + gpu::thread_index(); i < end && found == t.count;
         i += kOptimizerThreads)
      if (!is_finite(static_cast<double>(x[i]))) found = i;
    found = -gpu::block_max(-found, INT64_MIN);
    if (gpu::thread_index() == 0) Global<std::int64_t>(p.partials)[gpu::block_index()] = found;
  });
}

// A block per tensor.
LAMINA_GPU_FUNCTION void finish_search(const SearchParams& p) {
  const int tensor = gpu::block_index(), past = gpu::past_chunks(p.table, tensor);
  const SearchTensor& t = p.table.tensors[tensor];
  const Global<const double> squares(t.squares);
  const Global<const std::int64_t> partials(p.partials);
  const Global<double> y(t.y);
  std::int64_t found = t.count;
  if (!is_finite(squares[0]))
    for (int i = p.table.first_chunks[tensor] + gpu::thread_index(); i < past;
         i += kOptimizerThreads)
      found = gpu::min(found, std::int64_t{partials[i]});
  found = -gpu::block_max(-found, INT64_MIN);
  if (gpu::thread_index() > 0) return;
  const bool is_found = found < t.count;
  y[0] = is_found ? static_cast<double>(found) : -1.0;
  y[1] = is_found ? static_cast<double>(gpu::load(Global<const float>(t.x), found)) : 0.0;
}

}  // namespace

LAMINA_GPU_KERNEL_BOUNDS(adamw, AdamWParams, kOptimizerThreads, 4) { adamw_tensors(p); }
LAMINA_GPU_KERNEL_BOUNDS(adamw_rows, AdamWRowsParams, kOptimizerThreads, 4) { adamw_tables(p); }
LAMINA_GPU_KERNEL_BOUNDS(sum_of_squares, SquaresParams, kOptimizerThreads, 4) { square_chunks(p); }
LAMINA_GPU_KERNEL_BOUNDS(sum_of_squares_finish, SquaresParams, kOptimizerThreads, 1) {
  add_squares(p);
}
LAMINA_GPU_KERNEL_BOUNDS(first_non_finite_chunks, SearchParams, kOptimizerThreads, 1) {
  search_chunks(p);
}
LAMINA_GPU_KERNEL_BOUNDS(first_non_finite_finish, SearchParams, kOptimizerThreads, 1) {
  finish_search(p);
}

}  // namespace lamina::cuda
