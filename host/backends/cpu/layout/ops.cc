// The kernels of copy, concat, slice, pad, transpose, gather_rows, select_rows, take_along,
// scatter_along, cache_write and widen_stored.
#include <array>
#include <vector>

#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/layout/strided_copy.h"
#include "backends/cpu/stored/stored_rows.h"
#include "backends/cpu/threads/threads.h"
#include "formats/row_formats.h"

namespace lamina::cpu {
namespace {

// All threads move the bytes.
namespace copy_op {

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  return make_kernel([bytes = n.type(0).bytes()](const KernelArgs& args) {
    parallel_copy(args.outputs[0], args.inputs[0], bytes);
  });
}

constexpr KernelChoice kChoices[] = {{"memcpy", always, make}};

}  // namespace copy_op

// Copies, for each place before the dim, one run of memory from each input.
namespace concat_op {

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  const Type& y = n.out_type();
  const int dim = counted_dim(n.i("dim"), y.ndim());
  const std::int64_t inner = product(y.shape, dim + 1, y.ndim()) * size_bytes(y.dtype);
  const std::int64_t outer = product(y.shape, 0, dim);
  const std::int64_t to = y.dim(dim) * inner;
  std::vector<std::int64_t> runs;
  for (int i = 0; i < n.num_inputs(); ++i) runs.push_back(n.type(i).dim(dim) * inner);
  return make_kernel([=](const KernelArgs& args) {
    if (to == 0) return;
    parallel_ranges(outer, 1 + kMinCopyBytes / to, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t o = begin; o < end; ++o) {
        std::byte* row = at_byte(args.outputs[0], o * to);
        for (std::size_t i = 0; i < runs.size(); ++i) {
          if (runs[i] == 0) continue;
          std::memcpy(row, at_byte(args.inputs[i], o * runs[i]), static_cast<std::size_t>(runs[i]));
          row += runs[i];
        }
      }
    });
  });
}

constexpr KernelChoice kChoices[] = {{"memcpy", always, make}};

}  // namespace concat_op

// Copies one run of memory for each place before the dim.
namespace slice_op {

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  const Type& x = n.type(0);
  const int dim = counted_dim(n.i("dim"), x.ndim());
  const std::int64_t inner = product(x.shape, dim + 1, x.ndim()) * size_bytes(x.dtype);
  const std::int64_t outer = product(x.shape, 0, dim);
  const std::int64_t from = x.dim(dim) * inner, to = n.i("size") * inner, at = n.i("start") * inner;
  return make_kernel([=](const KernelArgs& args) {
    if (to == 0) return;
    parallel_ranges(outer, 1 + kMinCopyBytes / to, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t o = begin; o < end; ++o)
        std::memcpy(at_byte(args.outputs[0], o * to), at_byte(args.inputs[0], o * from + at),
                    static_cast<std::size_t>(to));
    });
  });
}

constexpr KernelChoice kChoices[] = {{"memcpy", always, make}};

}  // namespace slice_op

// Writes, for each place before the dim: zeros, one run of memory, zeros.
namespace pad_op {

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  const Type& x = n.type(0);
  const int dim = counted_dim(n.i("dim"), x.ndim());
  const std::int64_t inner = product(x.shape, dim + 1, x.ndim()) * size_bytes(x.dtype);
  const std::int64_t outer = product(x.shape, 0, dim);
  const std::int64_t before = n.i("before") * inner, after = n.i("after") * inner;
  const std::int64_t from = x.dim(dim) * inner, to = before + from + after;
  return make_kernel([=](const KernelArgs& args) {
    if (to == 0) return;
    parallel_ranges(outer, 1 + kMinCopyBytes / to, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t o = begin; o < end; ++o) {
        std::byte* row = at_byte(args.outputs[0], o * to);
        std::memset(row, 0, static_cast<std::size_t>(before));
        if (from)
          std::memcpy(row + before, at_byte(args.inputs[0], o * from),
                      static_cast<std::size_t>(from));
        std::memset(row + before + from, 0, static_cast<std::size_t>(after));
      }
    });
  });
}

constexpr KernelChoice kChoices[] = {{"memcpy", always, make}};

}  // namespace pad_op

// A strided copy, in blocks where rows become columns.
namespace transpose_op {

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  const Type& x = n.type(0);
  const Type& y = n.out_type();
  StridedCopy c{.element_bytes = size_bytes(x.dtype),
                .dims = y.shape,
                .x = nullptr,
                .x_strides = {},
                .y = nullptr,
                .y_strides = {}};
  for (int d = 0; d < y.ndim(); ++d) {
    const auto i = static_cast<std::size_t>(d);
    const int from = counted_dim(n.list("perm")[i], x.ndim());
    c.x_strides[i] = product(x.shape, from + 1, x.ndim());
    c.y_strides[i] = product(y.shape, d + 1, y.ndim());
  }
  return make_kernel([c](const KernelArgs& args) mutable {
    c.x = args.inputs[0];
    c.y = args.outputs[0];
    strided_copy(c);
  });
}

constexpr KernelChoice kChoices[] = {{"blocks", always, make}};

}  // namespace transpose_op

// Copies rows; a place outside of x gives zeros.
namespace gather_rows_op {

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  const Type& x = n.type(0);
  const std::int64_t rows = num_rows(x), gathered = n.type(1).dim(0), divide = n.i("divide");
  const std::int64_t row_bytes = x.dim(-1) * size_bytes(x.dtype);
  return make_kernel([=](const KernelArgs& args) {
    const auto* order = static_cast<const std::int32_t*>(args.inputs[1]);
    if (row_bytes == 0) return;
    parallel_ranges(gathered, 1 + kMinCopyBytes / row_bytes,
                    [&](std::int64_t begin, std::int64_t end) {
                      for (std::int64_t r = begin; r < end; ++r) {
                        std::byte* to = at_byte(args.outputs[0], r * row_bytes);
                        const std::int64_t row = order[r] / divide;
                        if (order[r] < 0 || row >= rows)
                          std::memset(to, 0, static_cast<std::size_t>(row_bytes));
                        else
                          std::memcpy(to, at_byte(args.inputs[0], row * row_bytes),
                                      static_cast<std::size_t>(row_bytes));
                      }
                    });
  });
}

constexpr KernelChoice kChoices[] = {{"memcpy", always, make}};

}  // namespace gather_rows_op

// Copies one row from each x[b]; a row outside of x gives zeros.
namespace select_rows_op {

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  const Type& x = n.type(0);
  const std::int64_t batch = x.dim(0), rows = x.dim(1);
  const std::int64_t row_bytes = x.dim(2) * size_bytes(x.dtype);
  return make_kernel([=](const KernelArgs& args) {
    const auto* row_of = static_cast<const std::int32_t*>(args.inputs[1]);
    if (row_bytes == 0) return;
    for (std::int64_t b = 0; b < batch; ++b) {
      std::byte* to = at_byte(args.outputs[0], b * row_bytes);
      const std::int64_t row = row_of[b];
      if (row < 0 || row >= rows)
        std::memset(to, 0, static_cast<std::size_t>(row_bytes));
      else
        std::memcpy(to, at_byte(args.inputs[0], (b * rows + row) * row_bytes),
                    static_cast<std::size_t>(row_bytes));
    }
  });
}

constexpr KernelChoice kChoices[] = {{"memcpy", always, make}};

}  // namespace select_rows_op

// Copies elements of each row by index; an index outside of the row gives 0.
namespace take_along_op {

// Calls fn(T{}) with an integer type of this many bytes, because numbers are only moved.
template <typename Fn>
void with_bits(int bytes, Fn fn) {
  if (bytes == 1) return fn(std::uint8_t{});
  if (bytes == 2) return fn(std::uint16_t{});
  if (bytes == 4) return fn(std::uint32_t{});
  fn(std::uint64_t{});
}

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  const std::int64_t rows = num_rows(n.type(0)), from = n.type(0).dim(-1), to = n.type(1).dim(-1);
  return make_kernel([=, dtype = n.type(0).dtype](const KernelArgs& args) {
    const auto* ids = static_cast<const std::int32_t*>(args.inputs[1]);
    with_bits(size_bytes(dtype), [&](auto type) {
      using T = decltype(type);
      const auto* x = static_cast<const T*>(args.inputs[0]);
      auto* y = static_cast<T*>(args.outputs[0]);
      parallel_ranges(rows, 1 + 8192 / (to + 1), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin * to; i < end * to; ++i)
          y[i] = ids[i] >= 0 && ids[i] < from ? x[i / to * from + ids[i]] : T{};
      });
    });
  });
}

constexpr KernelChoice kChoices[] = {{"elements", always, make}};

}  // namespace take_along_op

// Sums elements of each row by index, in order, and rounds once; indices outside of the row are
// ignored.
namespace scatter_along_op {

template <typename T>
void add_row(const T* x, const std::int32_t* ids, std::int64_t from, std::int64_t to,
             typename Number<T>::Wide* sums, T* y) {
  for (std::int64_t n = 0; n < to; ++n) sums[n] = 0;
  for (std::int64_t j = 0; j < from; ++j)
    if (ids[j] >= 0 && ids[j] < to) sums[ids[j]] += Number<T>::load(x[j]);
  for (std::int64_t n = 0; n < to; ++n) y[n] = Number<T>::store(sums[n]);
}

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  const std::int64_t rows = num_rows(n.type(0)), from = n.type(0).dim(-1), to = n.i("size");
  const auto sums_bytes = aligned(static_cast<std::size_t>(to) * sizeof(double));
  return make_kernel(
      [=, dtype = n.type(0).dtype](const KernelArgs& args) {
        const auto* ids = static_cast<const std::int32_t*>(args.inputs[1]);
        with_number(dtype, [&](auto type) {
          using T = decltype(type);
          const auto* x = static_cast<const T*>(args.inputs[0]);
          auto* y = static_cast<T*>(args.outputs[0]);
          parallel_ranges(rows, 1 + 8192 / (from + to + 1),
                          [&](std::int64_t begin, std::int64_t end, int thread) {
                            auto* sums = reinterpret_cast<typename Number<T>::Wide*>(
                                args.workspace + sums_bytes * static_cast<std::size_t>(thread));
                            for (std::int64_t r = begin; r < end; ++r)
                              add_row(x + r * from, ids + r * from, from, to, sums, y + r * to);
                          });
        });
      },
      sums_bytes * static_cast<std::size_t>(num_threads()));
}

constexpr KernelChoice kChoices[] = {{"elements", always, make}};

}  // namespace scatter_along_op

// Returns numbers stored in the graph.
namespace constant_data_op {

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  return make_kernel(
      [values = n.f_list("values"), dtype = n.out_type().dtype](const KernelArgs& args) {
        with_number(dtype, [&](auto type) {
          using T = decltype(type);
          auto* y = static_cast<T*>(args.outputs[0]);
          for (std::size_t i = 0; i < values.size(); ++i)
            y[i] = Number<T>::store(static_cast<typename Number<T>::Wide>(values[i]));
        });
      });
}

constexpr KernelChoice kChoices[] = {{"numbers", always, make}};

}  // namespace constant_data_op

// Copies token rows to their slots; slots outside of the cache are ignored.
namespace cache_write_op {

// Converts `count` values to rows in a format of formats/row_formats.h.
void narrow_rows(const formats::BlockFormat& format, DType dtype, const void* values,
                 std::int64_t count, std::byte* rows) {
  with_number(dtype, [&](auto type) {
    using T = decltype(type);
    const auto* from = static_cast<const T*>(values);
    std::array<float, formats::kMaxRowValues> row;
    for (std::int64_t i = 0; i < count; i += format.num_values, rows += format.num_bytes) {
      for (int j = 0; j < format.num_values; ++j)
        row[static_cast<std::size_t>(j)] = static_cast<float>(Number<T>::load(from[i + j]));
      formats::narrow_row(format, row.data(), rows);
    }
  });
}

Verdict supports(const NodeView& n) {
  if (!n.type(0).storage) return Verdict::yes();
  if (!formats::row_numbers(*n.type(0).storage))
    return Verdict::no("writes rows of int8 and fp8, got " + to_string(n.type(0)));
  return only_f32_and_bf16(n);
}

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  const Type& cache = n.type(0);
  const std::int64_t batch = cache.dim(0), capacity = cache.dim(1), tokens = n.type(1).dim(1);
  const formats::BlockFormat* storage = cache.storage;
  const DType dtype = cache.dtype;
  const std::int64_t row_values = product(cache.shape, 2, cache.ndim());
  const std::int64_t update_bytes = row_values * size_bytes(dtype);
  const std::int64_t row_bytes = storage ? storage->bytes_of(row_values) : update_bytes;
  const std::int64_t cache_bytes = cache.bytes();
  const bool ring = n.i("ring") != 0;
  const std::int64_t first = n.i("first"),
                     slots = n.i("slots") > 0 ? n.i("slots") : capacity - first;
  return make_kernel([=](const KernelArgs& args) {
    parallel_copy(args.outputs[0], args.inputs[0], cache_bytes);  // no copy when in place
    const auto* start = static_cast<const std::int32_t*>(args.inputs[2]);
    if (row_bytes == 0) return;
    parallel_ranges(batch * tokens, 1 + kMinCopyBytes / row_bytes,
                    [&](std::int64_t begin, std::int64_t end) {
                      for (std::int64_t i = begin; i < end; ++i) {
                        const std::int64_t b = i / tokens;
                        std::int64_t slot = start[b] + i % tokens;
                        if (ring) slot %= slots;
                        if (slot < 0 || slot >= slots) continue;
                        const std::int64_t to = b * capacity + first + slot;
                        std::byte* row = at_byte(args.outputs[0], to * row_bytes);
                        const std::byte* update = at_byte(args.inputs[1], i * update_bytes);
                        if (storage)
                          narrow_rows(*storage, dtype, update, row_values, row);
                        else
                          std::memcpy(row, update, static_cast<std::size_t>(row_bytes));
                      }
                    });
  });
}

constexpr KernelChoice kChoices[] = {{"rows", supports, make}};

}  // namespace cache_write_op

namespace widen_stored_op {

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  const Type& x = n.type(0);
  if (!x.storage)
    return make_kernel([bytes = x.bytes()](const KernelArgs& args) {
      parallel_copy(args.outputs[0], args.inputs[0], bytes);
    });
  return make_kernel([rows = StoredRows(*x.storage, x.dim(-1), x.dtype),
                      count = num_rows(x)](const KernelArgs& args) {
    parallel_widen(rows, args.inputs[0], count, args.outputs[0]);
  });
}

constexpr KernelChoice kChoices[] = {{"rows", only_f32_and_bf16, make}};

}  // namespace widen_stored_op

constexpr OpKernels kOps[] = {
    {"copy", copy_op::kChoices},
    {"concat", concat_op::kChoices},
    {"slice", slice_op::kChoices},
    {"pad", pad_op::kChoices},
    {"transpose", transpose_op::kChoices},
    {"gather_rows", gather_rows_op::kChoices},
    {"select_rows", select_rows_op::kChoices},
    {"take_along", take_along_op::kChoices},
    {"scatter_along", scatter_along_op::kChoices},
    {"cache_write", cache_write_op::kChoices},
    {"constant_data", constant_data_op::kChoices},
    {"widen_stored", widen_stored_op::kChoices},
};

}  // namespace

KernelTable layout_kernels() { return kOps; }

}  // namespace lamina::cpu
