// The kernels of reduce_sum, reduce_max and logsumexp.
#include "backends/cuda/access.h"
#include "backends/cuda/kernel_support.h"
#include "backends/cuda/reduce/order.h"
#include "backends/cuda/reduce/params.h"

namespace lamina::cuda {
namespace {

bool is_number(DType dtype) {
  return is_floating(dtype) || dtype == DType::i32 || dtype == DType::i64;
}

Verdict takes_sum(const NodeView& n) {
  const DType in = n.type(0).dtype, out = n.out_type().dtype;
  if (!is_number(in) || !is_number(out) || is_floating(in) != is_floating(out))
    return Verdict::no("sums floats into floats and i32 or i64 into these, not " +
                       to_string(n.type(0)) + " into " + std::string(name(out)));
  return Verdict::yes();
}

Verdict takes_max(const NodeView& n) {
  if (is_number(n.type(0).dtype)) return Verdict::yes();
  return Verdict::no("takes floats, i32 and i64, got " + to_string(n.type(0)));
}

void add_dim(ReduceDims& dims, std::int64_t size, std::int64_t stride, bool merges) {
  dims.elements *= size;
  if (merges) {
    dims.sizes[dims.count - 1] *= size;
    dims.strides[dims.count - 1] = stride;
    return;
  }
  dims.sizes[dims.count] = size;
  dims.strides[dims.count++] = stride;
}

// The dims of a node, neighbours merged.
struct Layout {
  ReduceDims kept, reduced;
  bool by_columns = false;

  explicit Layout(const NodeView& n) {
    const Type& x = n.type(0);
    unsigned mask = 0;
    for (std::int64_t dim : n.list("dims")) mask |= 1u << counted_dim(dim, x.ndim());
    int last = -1;  // whether the last dim that matters is reduced
    for (int d = 0; d < x.ndim(); ++d) {
      if (x.dim(d) == 1) continue;
      const int is_reduced = static_cast<int>(mask >> d & 1);
      add_dim(is_reduced ? reduced : kept, x.dim(d), product(x.shape, d + 1, x.ndim()),
              is_reduced == last);
      last = is_reduced;
    }
    by_columns = last == 0;
  }

  // Size of the innermost dim.
  std::int64_t inner() const {
    const ReduceDims& dims = by_columns ? kept : reduced;
    return dims.count > 0 ? dims.sizes[dims.count - 1] : 1;
  }
};

// The grid of a reduction. Depends on the shape and the form of access alone.
struct Grid {
  static constexpr int kThreads = 256;
  int threads = 1;  // as ReduceParams
  std::int64_t blocks = 0, tiles = 1, splits = 1, split_elements = 0;

  // `unit`: elements of a vector, or 1.
  Grid(const Layout& of, int unit) {
    const std::int64_t length = of.reduced.elements;
    std::int64_t step = 0;  // of the reduced index by all threads of an output
    if (of.by_columns) {
      const std::int64_t units = divide_up(of.inner(), std::int64_t{unit});
      threads = power_of_two(units, 32);
      tiles = divide_up(units, std::int64_t{threads});
      blocks = of.inner() > 0 ? of.kept.elements / of.inner() * tiles : 0;
      step = kThreads / threads;
    } else {
      threads = power_of_two(divide_up(length, std::int64_t{4 * unit}), kThreads);
      blocks = std::min(divide_up(of.kept.elements, std::int64_t{kThreads / threads}), kMostBlocks);
      step = std::int64_t{threads} * unit;
    }
    // Few blocks: the reduced index is shared out too, 16 steps or more for each thread.
    constexpr std::int64_t kEnoughBlocks = 512;
    if (blocks > 0 && blocks < kEnoughBlocks / 2)
      splits = std::clamp(divide_up(length, 16 * step), std::int64_t{1}, kEnoughBlocks / blocks);
    split_elements = round_up(divide_up(length, splits), std::int64_t{unit});
  }

 private:
  static int power_of_two(std::int64_t n, std::int64_t most) {
    return static_cast<int>(
        std::bit_ceil(static_cast<std::uint64_t>(std::clamp(n, std::int64_t{1}, most))));
  }
};

std::unique_ptr<Kernel> make(const std::string& op, const NodeView& n, Context& context) {
  const Type& x = n.type(0);
  const Layout layout(n);
  const int vector = vector_elements(x.dtype);
  const bool has_vectors = layout.inner() % vector == 0;
  const Grid by_vectors(layout, vector), by_elements(layout, 1);
  const AccessForms forms(
      context, fmt::format("{}_{}_{}", op, layout.by_columns ? "columns" : "rows", name(x.dtype)));
  const Function finish =
      function(context, op + "_finish", is_floating(x.dtype) ? DType::f64 : DType::i64);
  const ReduceParams params{.x = {},
                            .y = {},
                            .totals = {},
                            .kept = layout.kept,
                            .reduced = layout.reduced,
                            .split_elements = 0,
                            .threads = 1,
                            .tiles = 1,
                            .y_dtype = n.out_type().dtype};
  const std::int64_t outputs = layout.kept.elements;
  const auto run = [=](const KernelArgs& args) {
    const bool vectors = has_vectors && begin_vectors({args.inputs[0]});
    const Grid& grid = vectors ? by_vectors : by_elements;
    ReduceParams p = params;
    p.x = address(args.inputs[0]);
    p.y = address(args.outputs[0]);
    if (grid.splits > 1) p.totals = address(args.workspace);
    p.split_elements = grid.split_elements;
    p.threads = grid.threads;
    p.tiles = grid.tiles;
    launch(args, forms.get(vectors),
           {.blocks = grid.blocks, .threads = Grid::kThreads, .blocks_y = grid.splits}, p);
    if (grid.splits == 1) return;
    launch(args, finish, {.blocks = divide_up(outputs, std::int64_t{8}), .threads = 256},
           ReduceFinishParams{.totals = p.totals,
                              .y = p.y,
                              .outputs = outputs,
                              .splits = static_cast<int>(grid.splits),
                              .y_dtype = p.y_dtype});
  };
  const std::int64_t splits = std::max(by_vectors.splits, by_elements.splits);
  return make_kernel(run, splits == 1 ? 0 : static_cast<std::size_t>(outputs * splits) * 8);
}

std::unique_ptr<Kernel> make_sum(const NodeView& n, Context& context) {
  return make("reduce_sum", n, context);
}
std::unique_ptr<Kernel> make_max(const NodeView& n, Context& context) {
  return make("reduce_max", n, context);
}

Verdict takes_rows(const NodeView& n) {
  const Layout layout(n);
  if (!layout.by_columns && layout.reduced.count == 1 && layout.reduced.elements > 0)
    return Verdict::yes();
  return Verdict::no("takes sums over the last dims");
}

// One pass over each row.
std::unique_ptr<Kernel> make_logsumexp(const NodeView& n, Context& context) {
  const Type& x = n.type(0);
  const Layout layout(n);
  const AccessForms forms(context, fmt::format("logsumexp_{}", name(x.dtype)));
  const int vector = vector_elements(x.dtype);
  const LogsumexpParams params{.x = {},
                               .y = {},
                               .num_rows = layout.kept.elements,
                               .width = layout.reduced.elements,
                               .threads_per_row = 1};
  return make_kernel([=](const KernelArgs& args) {
    const bool by_vectors = params.width % vector == 0 && begin_vectors({args.inputs[0]});
    const RowShape shape =
        row_shape(params.num_rows, params.width / (by_vectors ? vector : 1), 4, 512);
    LogsumexpParams p = params;
    p.x = address(args.inputs[0]);
    p.y = address(args.outputs[0]);
    p.threads_per_row = shape.threads_per_row;
    launch(args, forms.get(by_vectors), {.blocks = shape.blocks, .threads = shape.threads}, p);
  });
}

constexpr KernelChoice kSum[] = {{"groups", takes_sum, make_sum}};
constexpr KernelChoice kMax[] = {{"groups", takes_max, make_max}};
constexpr KernelChoice kLogsumexp[] = {{"rows", takes_rows, make_logsumexp}};
constexpr KernelChoice kCumsum[] = {
    {.name = "blocks", .supports = takes_cumsum, .make = make_cumsum, .writes_all = true}};
constexpr KernelChoice kTopK[] = {
    {.name = "rows", .supports = takes_top_k, .make = make_top_k, .writes_all = true}};

constexpr OpKernels kOps[] = {
    {"reduce_sum", kSum}, {"reduce_max", kMax}, {"logsumexp", kLogsumexp},
    {"cumsum", kCumsum},  {"top_k", kTopK},
};

}  // namespace

KernelTable reduce_kernels() { return kOps; }

}  // namespace lamina::cuda
