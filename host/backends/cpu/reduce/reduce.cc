// Divides reductions into tasks by shape, runs them, and adds up the results of tasks in order.
#include "backends/cpu/reduce/reduce.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backends/cpu/threads/isa.h"
#include "backends/cpu/threads/scratch.h"
#include "backends/cpu/threads/threads.h"
#include "core/error.h"
#include "core/float16.h"

namespace lamina::cpu {
namespace {

const ReduceFunctions& functions() { return isa_table<ReduceFunctions>(); }

template <typename T, ReduceOp kOp>
void fold(ReduceTotal& total, T x) {
  if constexpr (std::is_floating_point_v<T>) {
    const double v = static_cast<double>(x);
    if constexpr (kOp == ReduceOp::sum)
      total.f += v;
    else
      total.f = std::isnan(total.f) || total.f > v ? total.f : v;
  } else {
    const std::int64_t v = x;
    if constexpr (kOp == ReduceOp::sum)
      total.i = static_cast<std::int64_t>(static_cast<std::uint64_t>(total.i) +
                                          static_cast<std::uint64_t>(v));
    else
      total.i = std::max(total.i, v);
  }
}

template <typename T, ReduceOp kOp>
void fold_run(ReduceTotal* total, const void* x, std::int64_t n, std::int64_t stride) {
  const T* p = static_cast<const T*>(x);
  for (std::int64_t i = 0; i < n; ++i) fold<T, kOp>(*total, p[i * stride]);
}
template <typename T, ReduceOp kOp>
void fold_columns(ReduceTotal* totals, const void* x, std::int64_t num_rows,
                  std::int64_t row_stride, std::int64_t n, std::int64_t column_stride) {
  const T* p = static_cast<const T*>(x);
  for (std::int64_t row = 0; row < num_rows; ++row)
    for (std::int64_t i = 0; i < n; ++i)
      fold<T, kOp>(totals[i], p[row * row_stride + i * column_stride]);
}
template <typename T>
ReduceFold scalar_functions(ReduceOp op) {
  if (op == ReduceOp::sum) return {fold_run<T, ReduceOp::sum>, fold_columns<T, ReduceOp::sum>};
  return {fold_run<T, ReduceOp::max>, fold_columns<T, ReduceOp::max>};
}

bool is_integer(DType dtype) { return dtype == DType::i32 || dtype == DType::i64; }

ReduceFold functions(const Reduce& r) {
  const bool sum = r.op == ReduceOp::sum;
  switch (r.dtype) {
    case DType::f32:
      return sum ? functions().sum_f32 : functions().max_f32;
    case DType::bf16:
      return sum ? functions().sum_bf16 : functions().max_bf16;
    case DType::f64:
      return scalar_functions<double>(r.op);
    case DType::i32:
      return scalar_functions<std::int32_t>(r.op);
    default:
      LAMINA_ASSERT(r.dtype == DType::i64);
      return scalar_functions<std::int64_t>(r.op);
  }
}

ReduceTotal start(const Reduce& r) {
  ReduceTotal total;
  if (is_integer(r.dtype))
    total.i = r.op == ReduceOp::sum ? 0 : std::numeric_limits<std::int64_t>::min();
  else
    total.f = r.op == ReduceOp::sum ? 0.0 : -INFINITY;
  return total;
}

// Dims of one kind, neighbours merged where their elements are evenly spaced.
struct Dims {
  int count = 0;
  std::array<std::int64_t, kMaxDims> sizes = {}, strides = {};
  std::int64_t elements = 1;

  void add(std::int64_t size, std::int64_t stride, bool may_merge) {
    elements *= size;
    const auto last = static_cast<std::size_t>(count > 0 ? count - 1 : 0);
    if (may_merge && count > 0 && strides[last] == stride * size) {
      sizes[last] *= size;
      strides[last] = stride;
      return;
    }
    sizes[static_cast<std::size_t>(count)] = size;
    strides[static_cast<std::size_t>(count)] = stride;
    ++count;
  }
  std::int64_t inner_size() const {
    return count > 0 ? sizes[static_cast<std::size_t>(count - 1)] : 1;
  }
  std::int64_t inner_stride() const {
    return count > 0 ? strides[static_cast<std::size_t>(count - 1)] : 1;
  }
  // Returns the offset of the element with this row-major index.
  std::int64_t offset(std::int64_t index) const {
    std::int64_t o = 0;
    for (int d = count - 1; d >= 0; --d) {
      const auto i = static_cast<std::size_t>(d);
      o += index % sizes[i] * strides[i];
      index /= sizes[i];
    }
    return o;
  }
};

// A task covers a span of kept elements and one of `splits` spans of the reduced index. By columns,
// when the innermost dim is kept: up to kReduceColumns neighbours together.
struct Cut {
  Dims kept, reduced;
  bool by_columns = false;
  std::int64_t spans = 0;          // of kept elements
  std::int64_t spans_per_row = 1;  // by columns: spans within the innermost kept dim
  std::int64_t splits = 1;
};

constexpr std::int64_t kEnoughTasks = 64;

Cut cut(const Reduce& r) {
  Cut c;
  int last = -1;  // the last dim that matters
  for (int d = 0; d < r.dims.ndim(); ++d) {
    const auto i = static_cast<std::size_t>(d);
    if (r.dims[d] == 1) continue;
    const bool merges = last >= 0 && r.reduced[static_cast<std::size_t>(last)] == r.reduced[i];
    (r.reduced[i] ? c.reduced : c.kept).add(r.dims[d], r.strides[i], merges);
    last = d;
  }
  c.by_columns = last >= 0 && !r.reduced[static_cast<std::size_t>(last)];
  const std::int64_t width = c.kept.inner_size();
  if (c.by_columns && width > 0) {
    c.spans_per_row = divide_up(width, kReduceColumns);
    c.spans = c.kept.elements / width * c.spans_per_row;
  } else {
    c.spans = c.kept.elements;
  }
  if (c.spans > 0 && c.spans < kEnoughTasks) {
    const std::int64_t min_elements = c.by_columns ? 64 : 16384;  // rows or elements worth a task
    c.splits =
        std::clamp<std::int64_t>(c.reduced.elements / min_elements, 1, kEnoughTasks / c.spans);
  }
  return c;
}

// Calls visit(offset, count) for the stretches of the reduced index [begin, end) along its
// innermost dim.
template <typename Visit>
void for_each_stretch(const Dims& reduced, std::int64_t begin, std::int64_t end,
                      const Visit& visit) {
  const std::int64_t inner = reduced.inner_size();
  while (begin < end) {
    const std::int64_t count = std::min(end - begin, inner - begin % inner);
    visit(reduced.offset(begin), count);
    begin += count;
  }
}

void run_task(const Reduce& r, const Cut& c, const ReduceFold& f, std::int64_t span,
              std::int64_t split, ReduceTotal* totals) {
  const std::byte* x = static_cast<const std::byte*>(r.x);
  const std::int64_t bytes = size_bytes(r.dtype);
  const std::int64_t begin = c.reduced.elements * split / c.splits;
  const std::int64_t end = c.reduced.elements * (split + 1) / c.splits;
  const std::int64_t step = c.reduced.inner_stride();
  if (!c.by_columns) {
    totals[span] = start(r);
    const std::int64_t base = c.kept.offset(span);
    for_each_stretch(c.reduced, begin, end, [&](std::int64_t offset, std::int64_t count) {
      f.run(&totals[span], x + (base + offset) * bytes, count, step);
    });
    return;
  }
  const std::int64_t width = c.kept.inner_size();
  const std::int64_t column = span % c.spans_per_row * kReduceColumns;
  const std::int64_t n = std::min(kReduceColumns, width - column);
  const std::int64_t first = span / c.spans_per_row * width + column;
  std::fill_n(totals + first, n, start(r));
  const std::int64_t base = c.kept.offset(first);
  for_each_stretch(c.reduced, begin, end, [&](std::int64_t offset, std::int64_t count) {
    f.columns(totals + first, x + (base + offset) * bytes, count, step, n, c.kept.inner_stride());
  });
}

void write(const Reduce& r, std::int64_t i, ReduceTotal total) {
  switch (r.y_dtype) {
    case DType::f32:
      static_cast<float*>(r.y)[i] = static_cast<float>(total.f * r.scale);
      return;
    case DType::bf16:
      static_cast<bfloat16*>(r.y)[i] = to_bfloat16(static_cast<float>(total.f * r.scale));
      return;
    case DType::f64:
      static_cast<double*>(r.y)[i] = total.f * r.scale;
      return;
    case DType::i32:
      static_cast<std::int32_t*>(r.y)[i] = static_cast<std::int32_t>(total.i);
      return;
    default:
      static_cast<std::int64_t*>(r.y)[i] = total.i;
  }
}

}  // namespace

std::size_t reduce_workspace_bytes(const Reduce& r) {
  const Cut c = cut(r);
  return static_cast<std::size_t>(c.kept.elements * c.splits) * sizeof(ReduceTotal);
}

void reduce(const Reduce& r) {
  LAMINA_ASSERT(is_integer(r.dtype) == is_integer(r.y_dtype));
  const Cut c = cut(r);
  const ReduceFold f = functions(r);
  const std::int64_t outputs = c.kept.elements;
  ReduceTotal* totals = static_cast<ReduceTotal*>(r.workspace);  // [splits, outputs]
  const std::int64_t work = std::max<std::int64_t>(
      1, outputs * c.reduced.elements / std::max<std::int64_t>(1, c.spans * c.splits));
  parallel_ranges(c.spans * c.splits, std::max<std::int64_t>(1, 16384 / work),
                  [&](std::int64_t begin, std::int64_t end) {
                    for (std::int64_t task = begin; task < end; ++task)
                      run_task(r, c, f, task % c.spans, task / c.spans,
                               totals + task / c.spans * outputs);
                  });
  parallel_ranges(outputs, 4096, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      ReduceTotal total = totals[i];
      for (std::int64_t s = 1; s < c.splits; ++s) {
        const ReduceTotal part = totals[s * outputs + i];
        if (is_integer(r.dtype))
          r.op == ReduceOp::sum ? fold<std::int64_t, ReduceOp::sum>(total, part.i)
                                : fold<std::int64_t, ReduceOp::max>(total, part.i);
        else
          r.op == ReduceOp::sum ? fold<double, ReduceOp::sum>(total, part.f)
                                : fold<double, ReduceOp::max>(total, part.f);
      }
      write(r, i, total);
    }
  });
}

}  // namespace lamina::cpu
