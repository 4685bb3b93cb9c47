// The kernels of copy, concat, slice, pad, transpose, take_along, scatter_along and constant_data.
#include <cstring>
#include <vector>

#include "backends/cuda/kernel_support.h"
#include "backends/cuda/layout/params.h"
#include "backends/cuda/layout/row_ops.h"
#include "backends/cuda/units.h"
#include "core/error.h"
#include "core/float16.h"
#include "runtime/map/dims.h"

namespace lamina::cuda {
namespace {

namespace copy_op {

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  return make_kernel([bytes = static_cast<std::size_t>(n.type(0).bytes())](const KernelArgs& args) {
    copy_bytes(args, args.outputs[0], args.inputs[0], bytes);
  });
}

constexpr KernelChoice kChoices[] = {{"driver", always, make}};

}  // namespace copy_op

// Runs of bytes in rows, one for each place before a dim.
struct Runs {
  std::int64_t num_rows;
  std::int64_t y_pitch, y_first, width;  // written: `width` bytes of each row of y
  std::int64_t x_pitch, x_first;
  std::int64_t begin, past;  // bytes of the width that come from x; the others are zeros
};

void copy_runs(const KernelArgs& args, const UnitKernels& kernels, const Runs& r, const void* x,
               void* y) {
  if (r.width == 0 || r.num_rows == 0) return;
  const gpu::Address from = address(x), to = address(y);
  const std::int64_t unit = UnitKernels::unit_of(
      {r.y_pitch, r.y_first, r.width, r.x_pitch, r.x_first, r.begin, r.past}, {from, to});
  const CopyRunsParams p{.x = from,
                         .y = to,
                         .num_rows = r.num_rows,
                         .y_pitch = r.y_pitch / unit,
                         .y_first = r.y_first / unit,
                         .x_pitch = r.x_pitch / unit,
                         .x_first = r.x_first / unit,
                         .begin = r.begin / unit,
                         .past = r.past / unit,
                         .width = gpu::divisor_of(r.width / unit)};
  launch(args, kernels.of(unit), shape_for_units(p.num_rows * p.width.by), p);
}

namespace concat_op {

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  const Type& y = n.out_type();
  const int dim = counted_dim(n.i("dim"), y.ndim());
  const std::int64_t inner = product(y.shape, dim + 1, y.ndim()) * size_bytes(y.dtype);
  std::vector<Runs> runs;
  std::int64_t first = 0;
  for (int i = 0; i < n.num_inputs(); ++i) {
    const std::int64_t width = n.type(i).dim(dim) * inner;
    runs.push_back({.num_rows = product(y.shape, 0, dim),
                    .y_pitch = y.dim(dim) * inner,
                    .y_first = first,
                    .width = width,
                    .x_pitch = width,
                    .x_first = 0,
                    .begin = 0,
                    .past = width});
    first += width;
  }
  return make_kernel([runs, kernels = UnitKernels(context, "layout_runs")](const KernelArgs& args) {
    for (std::size_t i = 0; i < runs.size(); ++i)
      copy_runs(args, kernels, runs[i], args.inputs[i], args.outputs[0]);
  });
}

constexpr KernelChoice kChoices[] = {{"runs", always, make}};

}  // namespace concat_op

namespace slice_op {

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  const Type& x = n.type(0);
  const int dim = counted_dim(n.i("dim"), x.ndim());
  const std::int64_t inner = product(x.shape, dim + 1, x.ndim()) * size_bytes(x.dtype);
  const std::int64_t width = n.i("size") * inner;
  const Runs runs{.num_rows = product(x.shape, 0, dim),
                  .y_pitch = width,
                  .y_first = 0,
                  .width = width,
                  .x_pitch = x.dim(dim) * inner,
                  .x_first = n.i("start") * inner,
                  .begin = 0,
                  .past = width};
  return make_kernel([runs, kernels = UnitKernels(context, "layout_runs")](const KernelArgs& args) {
    copy_runs(args, kernels, runs, args.inputs[0], args.outputs[0]);
  });
}

constexpr KernelChoice kChoices[] = {{"runs", always, make}};

}  // namespace slice_op

namespace pad_op {

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  const Type& x = n.type(0);
  const int dim = counted_dim(n.i("dim"), x.ndim());
  const std::int64_t inner = product(x.shape, dim + 1, x.ndim()) * size_bytes(x.dtype);
  const std::int64_t before = n.i("before") * inner, from = x.dim(dim) * inner;
  const std::int64_t width = before + from + n.i("after") * inner;
  const Runs runs{.num_rows = product(x.shape, 0, dim),
                  .y_pitch = width,
                  .y_first = 0,
                  .width = width,
                  .x_pitch = from,
                  .x_first = -before,
                  .begin = before,
                  .past = before + from};
  return make_kernel([runs, kernels = UnitKernels(context, "layout_runs")](const KernelArgs& args) {
    copy_runs(args, kernels, runs, args.inputs[0], args.outputs[0]);
  });
}

constexpr KernelChoice kChoices[] = {{"runs", always, make}};

}  // namespace pad_op

namespace transpose_op {

// The dims of y, merged, and the strides of both.
struct Transposed {
  MergedDims space;
  MapStrides x, y;
  int element_bytes;

  explicit Transposed(const NodeView& n)
      : x{}, y(contiguous_strides(n.out_type().shape)), element_bytes(size_bytes(n.type(0).dtype)) {
    const MapStrides of_x = contiguous_strides(n.type(0).shape);
    for (int d = 0; d < n.out_type().ndim(); ++d) {
      const auto i = static_cast<std::size_t>(d);
      x[i] = of_x[static_cast<std::size_t>(counted_dim(n.list("perm")[i], n.type(0).ndim()))];
    }
    MapStrides* const both[] = {&x, &y};
    space = merge_dims(n.out_type().shape, both);
  }

  int last() const { return space.ndim - 1; }
  std::int64_t size(int d) const { return space.dims[static_cast<std::size_t>(d)]; }
  std::int64_t x_stride(int d) const { return x[static_cast<std::size_t>(d)]; }
  std::int64_t y_stride(int d) const { return y[static_cast<std::size_t>(d)]; }
  // Rows of y are rows of x.
  bool keeps_rows() const { return x_stride(last()) == 1 || size(last()) <= 1; }
};

std::unique_ptr<Kernel> make_rows(const Transposed& t, Context& context) {
  std::int64_t sizes = t.size(t.last()) * t.element_bytes;
  for (int d = 0; d < t.last(); ++d) sizes |= t.x_stride(d) * t.element_bytes;
  return make_kernel(
      [t, sizes, kernels = UnitKernels(context, "permute_rows")](const KernelArgs& args) {
        PermuteRowsParams p{};
        p.x = address(args.inputs[0]);
        p.y = address(args.outputs[0]);
        const std::int64_t unit = UnitKernels::unit_of({sizes}, {p.x, p.y});
        p.num_units = t.space.num_elements * t.element_bytes / unit;
        p.width = gpu::divisor_of(t.size(t.last()) * t.element_bytes / unit);
        p.ndim = t.last();
        for (int d = 0; d < p.ndim; ++d) {
          p.dims[d] = gpu::divisor_of(t.size(d));
          p.strides[d] = t.x_stride(d) * t.element_bytes / unit;
        }
        launch(args, kernels.of(unit), shape_for_units(p.num_units), p);
      });
}

std::unique_ptr<Kernel> make_tiles(const Transposed& t, Context& context) {
  constexpr std::int64_t kSide = 32;
  int across = 0;  // the dim of y along which x is contiguous
  while (t.x_stride(across) != 1 || t.size(across) <= 1) ++across;
  TransposeParams p{};
  p.inner = t.size(t.last());
  p.across = t.size(across);
  p.x_stride = t.x_stride(t.last());
  p.y_stride = t.y_stride(across);
  p.tiles_inner = gpu::divisor_of(divide_up(p.inner, kSide));
  p.tiles_across = gpu::divisor_of(divide_up(p.across, kSide));
  for (int d = 0; d < t.last(); ++d) {
    if (d == across) continue;
    p.dims[p.ndim] = gpu::divisor_of(t.size(d));
    p.x_strides[p.ndim] = t.x_stride(d);
    p.y_strides[p.ndim++] = t.y_stride(d);
  }
  const std::int64_t plane = p.inner * p.across;
  p.num_tiles =
      plane == 0 ? 0 : t.space.num_elements / plane * p.tiles_inner.by * p.tiles_across.by;
  return make_kernel(
      [p, transpose = function(context, fmt::format("transpose_{}", t.element_bytes))](
          const KernelArgs& args) mutable {
        p.x = address(args.inputs[0]);
        p.y = address(args.outputs[0]);
        launch(args, transpose, {.blocks = grid_for(p.num_tiles), .threads = 256}, p);
      });
}

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  const Transposed t(n);
  if (t.space.num_elements == 0) return make_kernel([](const KernelArgs&) {});
  return t.keeps_rows() ? make_rows(t, context) : make_tiles(t, context);
}

constexpr KernelChoice kChoices[] = {{"tiles", always, make}};

}  // namespace transpose_op

// An index outside of the row gives 0.
namespace take_along_op {

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  const Type& x = n.type(0);
  AlongParams p{};
  p.num_rows = num_rows(x);
  p.from = x.dim(-1);
  p.to = gpu::divisor_of(n.type(1).dim(-1));
  const auto take = function(context, fmt::format("take_along_{}", size_bytes(x.dtype)));
  return make_kernel([p, take](const KernelArgs& args) mutable {
    p.x = address(args.inputs[0]);
    p.ids = address(args.inputs[1]);
    p.y = address(args.outputs[0]);
    launch(args, take, shape_for_units(p.num_rows * p.to.by), p);
  });
}

constexpr KernelChoice kChoices[] = {{"elements", always, make}};

}  // namespace take_along_op

// Indices outside of the row are ignored. Sums of 16-bit numbers are f32 in the workspace.
namespace scatter_along_op {

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  constexpr int kThreads = 128, kWarps = kThreads / 32;
  constexpr std::int64_t kMostSumBlocks = 1024;
  const Type& x = n.type(0);
  AlongParams p{};
  p.num_rows = num_rows(x);
  p.from = x.dim(-1);
  p.to = gpu::divisor_of(n.i("size"));
  const LaunchShape shape{.blocks = std::min(grid_for(p.num_rows, kWarps), kMostSumBlocks),
                          .threads = kThreads};
  const bool wide = size_bytes(x.dtype) > 2;
  const auto sums_bytes =
      wide ? 0 : static_cast<std::size_t>(shape.blocks * kWarps * p.to.by) * sizeof(float);
  return make_kernel(
      [p, shape, wide,
       scatter = function(context, "scatter_along", x.dtype)](const KernelArgs& args) mutable {
        p.x = address(args.inputs[0]);
        p.ids = address(args.inputs[1]);
        p.y = address(args.outputs[0]);
        p.sums = wide ? p.y : address(args.workspace);
        launch(args, scatter, shape, p);
      },
      sums_bytes);
}

constexpr KernelChoice kChoices[] = {{"elements", always, make}};

}  // namespace scatter_along_op

// Numbers stored in the graph come as parameters of launches, so that no memory must stay.
namespace constant_data_op {

template <typename T>
void append(std::vector<std::byte>& bytes, T value) {
  const auto* from = reinterpret_cast<const std::byte*>(&value);
  bytes.insert(bytes.end(), from, from + sizeof(T));
}

void append(std::vector<std::byte>& bytes, DType dtype, double value) {
  switch (dtype) {
    case DType::f32:
      return append(bytes, static_cast<float>(value));
    case DType::bf16:
      return append(bytes, to_bfloat16(static_cast<float>(value)));
    case DType::f16:
      return append(bytes, to_float16(static_cast<float>(value)));
    case DType::f64:
      return append(bytes, value);
    case DType::i32:
      return append(bytes, static_cast<std::int32_t>(static_cast<std::int64_t>(value)));
    default:
      LAMINA_ASSERT(dtype == DType::i64);
      return append(bytes, static_cast<std::int64_t>(value));
  }
}

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  std::vector<std::byte> bytes;
  for (double value : n.f_list("values")) append(bytes, n.out_type().dtype, value);
  return make_kernel([bytes, write = function(context, "constant_data")](const KernelArgs& args) {
    ConstantDataParams p{};
    p.y = address(args.outputs[0]);
    for (std::size_t first = 0; first < bytes.size(); first += kConstantBytes) {
      const std::size_t count = std::min<std::size_t>(kConstantBytes, bytes.size() - first);
      p.first = static_cast<std::int64_t>(first);
      p.num_bytes = static_cast<int>(count);
      std::memcpy(p.bytes, bytes.data() + first, count);
      launch(args, write, {.blocks = 1, .threads = 256}, p);
    }
  });
}

constexpr KernelChoice kChoices[] = {{"numbers", always, make}};

}  // namespace constant_data_op

constexpr OpKernels kOps[] = {
    {"copy", copy_op::kChoices},
    {"concat", concat_op::kChoices},
    {"slice", slice_op::kChoices},
    {"pad", pad_op::kChoices},
    {"transpose", transpose_op::kChoices},
    {"take_along", take_along_op::kChoices},
    {"scatter_along", scatter_along_op::kChoices},
    {"constant_data", constant_data_op::kChoices},
};

}  // namespace

KernelTable layout_kernels() {
  static const std::vector<OpKernels> table = [] {
    std::vector<OpKernels> all(std::begin(kOps), std::end(kOps));
    const KernelTable rows = row_kernels();
    all.insert(all.end(), rows.begin(), rows.end());
    return all;
  }();
  return table;
}

}  // namespace lamina::cuda
