// Sums and maxima over any dims.
//
// Bound by memory. If the innermost dim is reduced, a group of threads reads the run of an output
// by vectors of 16 bytes; if it is kept, threads side by side read neighbouring columns, and the
// threads of a block share out the rows. If there are few outputs, blocks share out the reduced
// index, and a second kernel adds up their totals in order. Sums of f32, bf16 and f16 are added in
// f32 for a few elements of a thread, then in f64; sums of integers in 64 bits.
#include "backends/cuda/gpu/chunks.h"
#include "backends/cuda/gpu/row_groups.h"
#include "backends/cuda/reduce/params.h"

namespace lamina::cuda {
namespace {

using gpu::Global;
using gpu::RowGroup;

constexpr int kThreads = 256;
constexpr int kAhead = 4;  // loads of a thread that are under way together

// The grid of a tensor. Its blocks may be any part of the launch's.
struct ReduceGrid {
  int block, num_blocks, split;
};
LAMINA_GPU_FUNCTION ReduceGrid whole_grid() {
  return {gpu::block_index(), gpu::num_blocks(), gpu::block_index_y()};
}

template <typename Dims>
LAMINA_GPU_FUNCTION std::int64_t offset(const Dims& dims, std::int64_t index) {
  std::int64_t out = 0;
  for (int d = dims.count - 1; d > 0; --d) {
    const std::int64_t size = dims.sizes[d];
    const std::int64_t rest = index / size;
    out += (index - rest * size) * dims.strides[d];
    index = rest;
  }
  return dims.count > 0 ? out + index * dims.strides[0] : 0;
}

// A sum: `Part` of a few elements, `Total` of all.
template <typename T>
struct Sum {
  using Element = gpu::Wide<T>;
  static constexpr bool kIntegers = std::is_integral_v<Element>;
  using Part = std::conditional_t<kIntegers, std::int64_t, Element>;
  using Total = std::conditional_t<kIntegers, std::int64_t, double>;
  LAMINA_GPU_FUNCTION static Total start() { return 0; }
  template <typename V>
  LAMINA_GPU_FUNCTION static V fold(V a, V b) {
    return a + b;
  }
};

// The largest; NaN wins.
template <typename T>
struct Max {
  using Element = gpu::Wide<T>;
  using Part = Element;
  using Total = typename Sum<T>::Total;
  LAMINA_GPU_FUNCTION static Total start() {
    if constexpr (std::is_integral_v<Total>)
      return INT64_MIN;
    else
      return -static_cast<double>(gpu::infinity());
  }
  template <typename V>
  LAMINA_GPU_FUNCTION static V fold(V a, V b) {
    return a > b || a != a ? a : b;
  }
};

template <typename Total>
LAMINA_GPU_FUNCTION void store_total(gpu::Address y, DType dtype, std::int64_t i, Total total) {
  if constexpr (std::is_integral_v<Total>) {
    if (dtype == DType::i32)
      gpu::store(Global<std::int32_t>(y), i, static_cast<std::int32_t>(total));
    else
      gpu::store(Global<std::int64_t>(y), i, total);
  } else {
    if (dtype == DType::f64) return gpu::store(Global<double>(y), i, total);
    const float value = static_cast<float>(total);
    if (dtype == DType::f32)
      gpu::store(Global<float>(y), i, value);
    else if (dtype == DType::bf16)
      gpu::store(Global<gpu::bfloat16>(y), i, value);
    else
      gpu::store(Global<gpu::float16>(y), i, value);
  }
}

template <typename Total, typename Params>
LAMINA_GPU_FUNCTION void write_total(const Params& p, int split, std::int64_t i, Total total) {
  const Global<Total> totals(p.totals);
  if (totals)
    totals[split * p.kept.elements + i] = total;
  else
    store_total(p.y, p.y_dtype, i, total);
}

// Folds the elements that `visit` gives for i = first, first + step ... below `end`.
template <typename Op, int N, typename T, typename Visit>
LAMINA_GPU_FUNCTION void fold_elements(typename Op::Total& total, std::int64_t first,
                                       std::int64_t end, std::int64_t step,
                                       const Global<const T>& x, Visit at) {
  using Part = typename Op::Part;
  using Element = typename Op::Element;
  const auto fold_vector = [](const Element(&v)[N]) {
    Part part = v[0];
    for (int j = 1; j < N; ++j) part = Op::fold(part, static_cast<Part>(v[j]));
    return part;
  };
  std::int64_t i = first;
  for (; i + (kAhead - 1) * step < end; i += kAhead * step) {
    Element v[kAhead][N];
    LAMINA_GPU_UNROLL
    for (int a = 0; a < kAhead; ++a) gpu::load_numbers(x, at(i + a * step), v[a]);
    Part part = fold_vector(v[0]);
    LAMINA_GPU_UNROLL
    for (int a = 1; a < kAhead; ++a) part = Op::fold(part, fold_vector(v[a]));
    total = Op::fold(total, static_cast<typename Op::Total>(part));
  }
  for (; i < end; i += step) {
    Element v[N];
    gpu::load_numbers(x, at(i), v);
    total = Op::fold(total, static_cast<typename Op::Total>(fold_vector(v)));
  }
}

// The innermost dim is reduced: a group of threads per output.
template <typename Op, int N, typename T, typename Params>
LAMINA_GPU_FUNCTION void reduce_rows(const Params& p, const ReduceGrid& grid) {
  using Total = typename Op::Total;
  LAMINA_GPU_SHARED(Total, scratch, gpu::kGroupScratch<1>);
  const Global<const T> x(p.x);
  const RowGroup g = gpu::row_group(p.threads);
  const std::int64_t begin = grid.split * p.split_elements;
  const std::int64_t end = gpu::min(begin + p.split_elements, p.reduced.elements);
  const std::int64_t step = static_cast<std::int64_t>(grid.num_blocks) * g.count;
  for (std::int64_t first = static_cast<std::int64_t>(grid.block) * g.count;
       first < p.kept.elements; first += step) {
    const std::int64_t output = first + g.index;
    const bool has_output = output < p.kept.elements;
    Total total[1] = {Op::start()};
    if (has_output) {
      const std::int64_t base = offset(p.kept, output);
      fold_elements<Op, N>(total[0], begin + g.lane * N, end, g.threads * N, x,
                           [&](std::int64_t i) { return base + offset(p.reduced, i); });
    }
    gpu::group_combine(
        g, total, [](Total a, Total b) { return Op::fold(a, b); }, scratch);
    if (has_output && g.lane == 0) write_total(p, grid.split, output, total[0]);
  }
}

// The innermost dim is kept: a block reduces a tile of neighbouring columns, N for each thread.
template <typename Op, int N, typename T, typename Params>
LAMINA_GPU_FUNCTION void reduce_columns(const Params& p, const ReduceGrid& grid) {
  using Total = typename Op::Total;
  using Part = typename Op::Part;
  LAMINA_GPU_SHARED(Total, sums, kThreads * N);
  const Global<const T> x(p.x);
  const int lane = gpu::thread_index() & (p.threads - 1), row = gpu::thread_index() / p.threads;
  const int rows = gpu::num_threads() / p.threads, tile = p.threads * N;
  const std::int64_t width = p.kept.sizes[p.kept.count - 1];
  const std::int64_t first = grid.block % p.tiles * tile;  // column of the tile
  const std::int64_t line = grid.block / p.tiles * width;  // output of column 0
  const std::int64_t column = first + lane * N;
  Total totals[N];
  for (int j = 0; j < N; ++j) totals[j] = Op::start();
  if (column < width) {
    const std::int64_t base = offset(p.kept, line + column);
    const std::int64_t begin = grid.split * p.split_elements;
    const std::int64_t end = gpu::min(begin + p.split_elements, p.reduced.elements);
    for (std::int64_t i = begin + row; i < end; i += kAhead * rows) {
      typename Op::Element v[kAhead][N];
      LAMINA_GPU_UNROLL
      for (int a = 0; a < kAhead; ++a)
        if (i + a * rows < end) gpu::load_numbers(x, base + offset(p.reduced, i + a * rows), v[a]);
      LAMINA_GPU_UNROLL
      for (int j = 0; j < N; ++j) {
        Part part = v[0][j];
        LAMINA_GPU_UNROLL
        for (int a = 1; a < kAhead; ++a)
          if (i + a * rows < end) part = Op::fold(part, static_cast<Part>(v[a][j]));
        totals[j] = Op::fold(totals[j], static_cast<Total>(part));
      }
    }
  }
  for (int j = 0; j < N; ++j) sums[row * tile + lane * N + j] = totals[j];
  gpu::sync();
  for (int c = gpu::thread_index(); c < tile; c += gpu::num_threads()) {
    if (first + c >= width) continue;
    Total total = sums[c];
    for (int r = 1; r < rows; ++r) total = Op::fold(total, static_cast<Total>(sums[r * tile + c]));
    write_total(p, grid.split, line + first + c, total);
  }
}

// A warp per output adds up the totals of the splits.
template <typename Op>
LAMINA_GPU_FUNCTION void finish(const ReduceFinishParams& p, int block) {
  using Total = typename Op::Total;
  LAMINA_GPU_SHARED(Total, scratch, gpu::kGroupScratch<1>);
  const Global<const Total> totals(p.totals);
  const RowGroup g = gpu::row_group(32);
  const std::int64_t output = static_cast<std::int64_t>(block) * g.count + g.index;
  const bool has_output = output < p.outputs;
  Total total[1] = {Op::start()};
  if (has_output)
    for (int split = g.lane; split < p.splits; split += 32)
      total[0] = Op::fold(total[0], totals[split * p.outputs + output]);
  gpu::group_combine(
      g, total, [](Total a, Total b) { return Op::fold(a, b); }, scratch);
  if (has_output && g.lane == 0) store_total(p.y, p.y_dtype, output, total[0]);
}

// Calls work(params, block) for the chunks of this block, each a block of a tensor alone.
template <typename Table, typename Work>
LAMINA_GPU_FUNCTION void for_blocks_of_tensors(const Table& table, const Work& work) {
  gpu::for_chunks_of_block(table, [&](int tensor, std::int64_t first, std::int64_t past) {
    for (std::int64_t block = first; block < past; ++block) {
      gpu::sync();  // shared memory has been read
      work(table.tensors[tensor], block);
    }
  });
}
LAMINA_GPU_FUNCTION ReduceGrid grid_of(const ReduceTensor& t, std::int64_t block) {
  return {static_cast<int>(block % t.blocks), static_cast<int>(t.blocks),
          static_cast<int>(block / t.blocks)};
}

}  // namespace

#define LAMINA_REDUCE_KERNEL(op, Op, by, dtype, T, access, N)                           \
  LAMINA_GPU_KERNEL_BOUNDS(op##_##by##_##dtype##_##access, ReduceParams, kThreads, 1) { \
    reduce_##by<Op<T>, N, T>(p, whole_grid());                                          \
  }
#define LAMINA_REDUCE_KERNELS(op, Op, dtype, T)                              \
  LAMINA_REDUCE_KERNEL(op, Op, rows, dtype, T, vectors, (16 / sizeof(T)))    \
  LAMINA_REDUCE_KERNEL(op, Op, rows, dtype, T, elements, 1)                  \
  LAMINA_REDUCE_KERNEL(op, Op, columns, dtype, T, vectors, (16 / sizeof(T))) \
  LAMINA_REDUCE_KERNEL(op, Op, columns, dtype, T, elements, 1)
#define LAMINA_REDUCE_OP(op, Op)                           \
  LAMINA_REDUCE_KERNELS(op, Op, f32, float)                \
  LAMINA_REDUCE_KERNELS(op, Op, bf16, gpu::bfloat16)       \
  LAMINA_REDUCE_KERNELS(op, Op, f16, gpu::float16)         \
  LAMINA_REDUCE_KERNELS(op, Op, f64, double)               \
  LAMINA_REDUCE_KERNELS(op, Op, i32, std::int32_t)         \
  LAMINA_REDUCE_KERNELS(op, Op, i64, std::int64_t)         \
  LAMINA_GPU_KERNEL(op##_finish_f64, ReduceFinishParams) { \
    finish<Op<double>>(p, gpu::block_index());             \
  }                                                        \
  LAMINA_GPU_KERNEL(op##_finish_i64, ReduceFinishParams) { \
    finish<Op<std::int64_t>>(p, gpu::block_index());       \
  }
LAMINA_REDUCE_OP(reduce_sum, Sum)
LAMINA_REDUCE_OP(reduce_max, Max)
#define LAMINA_REDUCE_GROUP_KERNEL(op, Op, by, access, N)                                    \
  LAMINA_GPU_KERNEL_BOUNDS(op##_##by##_group_f32_##access, ReduceGroupParams, kThreads, 1) { \
    for_blocks_of_tensors(p.table, [](const ReduceTensor& t, std::int64_t block) {           \
      reduce_##by<Op<float>, N, float>(t.of, grid_of(t, block));                             \
    });                                                                                      \
  }
#define LAMINA_REDUCE_GROUP_OP(op, Op)                                                    \
  LAMINA_REDUCE_GROUP_KERNEL(op, Op, rows, vectors, 4)                                    \
  LAMINA_REDUCE_GROUP_KERNEL(op, Op, rows, elements, 1)                                   \
  LAMINA_REDUCE_GROUP_KERNEL(op, Op, columns, vectors, 4)                                 \
  LAMINA_REDUCE_GROUP_KERNEL(op, Op, columns, elements, 1)                                \
  LAMINA_GPU_KERNEL(op##_finish_group_f64, ReduceFinishGroupParams) {                     \
    for_blocks_of_tensors(p.table, [](const ReduceFinishParams& of, std::int64_t block) { \
      finish<Op<double>>(of, static_cast<int>(block));                                    \
    });                                                                                   \
  }
LAMINA_REDUCE_GROUP_OP(reduce_sum, Sum)
LAMINA_REDUCE_GROUP_OP(reduce_max, Max)
#undef LAMINA_REDUCE_GROUP_OP
#undef LAMINA_REDUCE_GROUP_KERNEL
#undef LAMINA_REDUCE_OP
#undef LAMINA_REDUCE_KERNELS
#undef LAMINA_REDUCE_KERNEL

}  // namespace lamina::cuda
