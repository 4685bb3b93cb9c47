// AdamW and what training measures of gradients: sums of squares, elements that are not finite.
//
// Bound by memory: AdamW reads four tensors and writes three or four, in vectors of 16 bytes. A
// block computes the numbers of a step once. adamw_range() works on any range of any tensor, so
// that a kernel over many tensors can share it.
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

LAMINA_GPU_FUNCTION Numbers numbers_of(const AdamWConstants& a, Global<const float> scalars) {
  const double lr = static_cast<double>(scalars[0]);
  return {.grad_scale = scalars[1],
          .decay = static_cast<float>(1 - lr * a.weight_decay),
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
LAMINA_GPU_FUNCTION Numbers shared_numbers(const AdamWConstants& a, gpu::Address scalars) {
  LAMINA_GPU_SHARED(Numbers, numbers, 1);
  if (gpu::thread_index() == 0) numbers[0] = numbers_of(a, Global<const float>(scalars));
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

// Updates elements first, first + step ... below `end` of a tensor, N at a time.
template <int N>
LAMINA_GPU_FUNCTION void adamw_range(const Numbers& numbers, const AdamWTensor& t,
                                     std::int64_t first, std::int64_t end, std::int64_t stride) {
  const State s(t);
  const Global<const float> gradients(t.g);
  for (std::int64_t i = first; i < end; i += stride) {
    if (!numbers.may_change) {
      keep<N>(s, {}, i);
      continue;
    }
    float g[N];
    gpu::load_numbers(gradients, i, g);
    step(numbers, s, i, g);
  }
}

template <int N>
LAMINA_GPU_FUNCTION void adamw(const AdamWParams& p) {
  const Numbers numbers = shared_numbers(p.constants, p.scalars);
  adamw_range<N>(numbers, p.tensor, gpu::first_index() * N, p.tensor.count, gpu::num_indices() * N);
}

// A group of threads per row of the table. All of its threads look up the row, which the caches
// serve; the loads of other groups hide its latency.
template <int N>
LAMINA_GPU_FUNCTION void adamw_rows(const AdamWRowsParams& p) {
  const Numbers numbers = shared_numbers(p.constants, p.scalars);
  const State s(p.table);
  const Global<const gpu::bfloat16> copy_in(p.copy_in);
  const Global<const float> gradients(p.table.g);
  const Global<const std::int32_t> ids(p.ids);
  const RowGroup g = gpu::row_group(p.threads_per_row);
  const std::int64_t stride = std::int64_t{gpu::num_blocks()} * g.count;
  for (std::int64_t row = std::int64_t{gpu::block_index()} * g.count + g.index; row < p.rows;
       row += stride) {
    const std::int64_t slot = gpu::lower_bound(ids, p.slots, row);
    const bool is_listed = slot < p.slots && ids[slot] == row;
    const bool changes = numbers.may_change && (is_listed || !p.lazy);
    for (int c = g.lane * N; c < p.width; c += g.threads * N) {
      const std::int64_t i = row * p.width + c;
      if (!changes) {
        keep<N>(s, copy_in, i);
        continue;
      }
      float gradient[N] = {};
      if (is_listed) gpu::load_numbers(gradients, slot * p.width + c, gradient);
      step(numbers, s, i, gradient);
    }
  }
}

// A group of threads per slot; other rows stay as they are, in place.
template <int N>
LAMINA_GPU_FUNCTION void adamw_slots(const AdamWRowsParams& p) {
  const Numbers numbers = shared_numbers(p.constants, p.scalars);
  if (!numbers.may_change) return;
  const State s(p.table);
  const Global<const float> gradients(p.table.g);
  const Global<const std::int32_t> ids(p.ids);
  const RowGroup g = gpu::row_group(p.threads_per_row);
  const std::int64_t stride = std::int64_t{gpu::num_blocks()} * g.count;
  for (std::int64_t slot = std::int64_t{gpu::block_index()} * g.count + g.index; slot < p.slots;
       slot += stride) {
    const std::int64_t row = ids[slot];
    if (row >= p.rows) continue;
    for (int c = g.lane * N; c < p.width; c += g.threads * N) {
      float gradient[N];
      gpu::load_numbers(gradients, slot * p.width + c, gradient);
      step(numbers, s, row * p.width + c, gradient);
    }
  }
}

constexpr int kChunkThreads = 256;

struct Chunk {
  std::int64_t begin, end;
  LAMINA_GPU_FUNCTION explicit Chunk(const ChunksParams& p)
      : begin(gpu::block_index() * p.chunk_elements),
        end(gpu::min(begin + p.chunk_elements, p.count)) {}
};

// Squares of f32 are exact in f64. GPUs for servers multiply f64 faster than memory delivers f32.
template <int N>
LAMINA_GPU_FUNCTION void square_chunks(const ChunksParams& p) {
  const Global<const float> x(p.x);
  const Chunk chunk(p);
  double sums[N] = {};
  for (std::int64_t i = chunk.begin + gpu::thread_index() * N; i < chunk.end;
       i += kChunkThreads * N) {
    float v[N];
    gpu::load_numbers(x, i, v);
    LAMINA_GPU_UNROLL
    for (int j = 0; j < N; ++j)
      sums[j] = gpu::fma(static_cast<double>(v[j]), static_cast<double>(v[j]), sums[j]);
  }
  double sum = sums[0];
  for (int j = 1; j < N; ++j) sum += sums[j];
  sum = gpu::block_sum(sum);
  if (gpu::thread_index() == 0) Global<double>(p.partials)[gpu::block_index()] = sum;
}

LAMINA_GPU_FUNCTION void add_squares(const ChunksParams& p) {
  const Global<const double> partials(p.partials);
  double sum = 0;
  for (int i = gpu::thread_index(); i < p.chunks; i += gpu::num_threads()) sum += partials[i];
  sum = gpu::block_sum(sum);
  if (gpu::thread_index() == 0) Global<double>(p.y)[0] = sum;
}

LAMINA_GPU_FUNCTION bool is_finite(double x) { return x - x == 0; }

// The index of the first element of each chunk that is not finite, or `count`; without a look at x
// if the sum of squares is finite.
LAMINA_GPU_FUNCTION void search_chunks(const ChunksParams& p) {
  const Global<const double> squares(p.squares);
  if (is_finite(squares[0])) return;
  const Global<const float> x(p.x);
  const Chunk chunk(p);
  std::int64_t found = p.count;
  for (std::int64_t i = chunk.begin + gpu::thread_index(); i < chunk.end && found == p.count;
       i += kChunkThreads)
    if (!is_finite(static_cast<double>(x[i]))) found = i;
  found = -gpu::block_max(-found, INT64_MIN);
  if (gpu::thread_index() == 0) Global<std::int64_t>(p.partials)[gpu::block_index()] = found;
}

LAMINA_GPU_FUNCTION void finish_search(const ChunksParams& p) {
  const Global<const double> squares(p.squares);
  const Global<const std::int64_t> partials(p.partials);
  const Global<double> y(p.y);
  std::int64_t found = p.count;
  if (!is_finite(squares[0]))
    for (int i = gpu::thread_index(); i < p.chunks; i += gpu::num_threads())
      found = gpu::min(found, std::int64_t{partials[i]});
  found = -gpu::block_max(-found, INT64_MIN);
  if (gpu::thread_index() > 0) return;
  const bool is_found = found < p.count;
  y[0] = is_found ? static_cast<double>(found) : -1.0;
  y[1] = is_found ? static_cast<double>(gpu::load(Global<const float>(p.x), found)) : 0.0;
}

}  // namespace

LAMINA_GPU_KERNEL_BOUNDS(adamw_vectors, AdamWParams, 256, 2) { adamw<4>(p); }
LAMINA_GPU_KERNEL_BOUNDS(adamw_elements, AdamWParams, 256, 2) { adamw<1>(p); }
LAMINA_GPU_KERNEL_BOUNDS(adamw_rows_vectors, AdamWRowsParams, 256, 2) { adamw_rows<4>(p); }
LAMINA_GPU_KERNEL_BOUNDS(adamw_rows_elements, AdamWRowsParams, 256, 2) { adamw_rows<1>(p); }
LAMINA_GPU_KERNEL_BOUNDS(adamw_slots_vectors, AdamWRowsParams, 256, 2) { adamw_slots<4>(p); }
LAMINA_GPU_KERNEL_BOUNDS(adamw_slots_elements, AdamWRowsParams, 256, 2) { adamw_slots<1>(p); }
LAMINA_GPU_KERNEL_BOUNDS(sum_of_squares_vectors, ChunksParams, kChunkThreads, 4) {
  square_chunks<4>(p);
}
LAMINA_GPU_KERNEL_BOUNDS(sum_of_squares_elements, ChunksParams, kChunkThreads, 1) {
  square_chunks<1>(p);
}
LAMINA_GPU_KERNEL_BOUNDS(sum_of_squares_finish, ChunksParams, kChunkThreads, 1) { add_squares(p); }
LAMINA_GPU_KERNEL_BOUNDS(first_non_finite_chunks, ChunksParams, kChunkThreads, 1) {
  search_chunks(p);
}
LAMINA_GPU_KERNEL_BOUNDS(first_non_finite_finish, ChunksParams, kChunkThreads, 1) {
  finish_search(p);
}

}  // namespace lamina::cuda
