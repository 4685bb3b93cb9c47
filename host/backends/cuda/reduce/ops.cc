// The kernels of reduce_sum, reduce_max and logsumexp.
#include <optional>
#include <vector>

#include "backends/cuda/access.h"
#include "backends/cuda/chunks.h"
#include "backends/cuda/kernel_support.h"
#include "backends/cuda/reduce/order.h"
#include "backends/cuda/reduce/params.h"
#include "runtime/kernel_group.h"

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

// Parameters of a node without addresses and without what depends on its grid.
ReduceParams params_of(const Layout& layout, DType y_dtype) {
  return {.x = {},
          .y = {},
          .totals = {},
          .kept = layout.kept,
          .reduced = layout.reduced,
          .split_elements = 0,
          .threads = 1,
          .tiles = 1,
          .y_dtype = y_dtype};
}

ReduceDimsOf<kMostGroupDims> narrowed(const ReduceDims& dims) {
  ReduceDimsOf<kMostGroupDims> out{.count = dims.count, .elements = dims.elements};
  std::copy_n(dims.sizes, dims.count, out.sizes);
  std::copy_n(dims.strides, dims.count, out.strides);
  return out;
}

// One node: its parameters, and its grid by each form of access.
struct Reduction {
  ReduceParams params;
  DType x_dtype;
  bool by_columns, has_vectors;
  Grid by_vectors, by_elements;

  explicit Reduction(const NodeView& n) : Reduction(n, Layout(n)) {}

  std::int64_t outputs() const { return params.kept.elements; }
  const Grid& grid(bool vectors) const { return vectors ? by_vectors : by_elements; }
  std::int64_t splits() const { return std::max(by_vectors.splits, by_elements.splits); }
  std::size_t workspace_bytes() const {
    return splits() == 1 ? 0 : aligned(static_cast<std::size_t>(outputs() * splits()) * 8);
  }
  // True if it can share a launch.
  bool fits_group() const {
    constexpr std::int64_t kMostBlocksOfOne = std::int64_t{1} << 20;
    return x_dtype == DType::f32 && params.kept.count <= kMostGroupDims &&
           params.reduced.count <= kMostGroupDims &&
           by_vectors.blocks * by_vectors.splits <= kMostBlocksOfOne &&
           by_elements.blocks * by_elements.splits <= kMostBlocksOfOne;
  }

  // Returns the parameters of a run.
  ReduceParams placed(bool vectors, const void* x, void* y, std::byte* workspace) const {
    ReduceParams p = params;
    p.x = address(x);
    p.y = address(y);
    if (grid(vectors).splits > 1) p.totals = address(workspace);
    p.split_elements = grid(vectors).split_elements;
    p.threads = grid(vectors).threads;
    p.tiles = grid(vectors).tiles;
    return p;
  }
  static ReduceFinishParams finish_params(const ReduceParams& p, std::int64_t splits) {
    return {.totals = p.totals,
            .y = p.y,
            .outputs = p.kept.elements,
            .splits = static_cast<int>(splits),
            .y_dtype = p.y_dtype};
  }

 private:
  Reduction(const NodeView& n, const Layout& layout)
      : params(params_of(layout, n.out_type().dtype)),
        x_dtype(n.type(0).dtype),
        by_columns(layout.by_columns),
        has_vectors(layout.inner() % vector_elements(x_dtype) == 0),
        by_vectors(layout, vector_elements(x_dtype)),
        by_elements(layout, 1) {}
};

// Outputs of a block of the second kernel.
constexpr std::int64_t kFinished = Grid::kThreads / 32;

// One reduction, or several in f32. Each has the blocks that it has alone.
class ReduceKernel final : public KernelGroup {
 public:
  ReduceKernel(const std::string& op, const NodeView& n, Context& context)
      : op_(op), context_(context), all_{Reduction(n)} {
    const DType x = first().x_dtype;
    forms_.emplace(context, stem() + "_" + std::string(name(x)));
    finish_ = function(context, op + "_finish", is_floating(x) ? DType::f64 : DType::i64);
  }

  bool add(const NodeView& n) override {
    const Reduction added(n);
    if (!first().fits_group() || !added.fits_group() || added.by_columns != first().by_columns)
      return false;
    if (all_.size() == 1) {
      forms_.emplace(context_, stem() + "_group_f32");
      finish_ = function(context_, op_ + "_finish_group", DType::f64);
    }
    all_.push_back(added);
    return true;
  }

  std::size_t workspace_bytes() const override {
    std::size_t bytes = 0;
    for (const Reduction& of : all_) bytes += of.workspace_bytes();
    return bytes;
  }

  void run(const KernelArgs& args) override {
    if (all_.size() > 1) return run_group(args);
    const bool vectors = first().has_vectors && begin_vectors({args.inputs[0]});
    const Grid& grid = first().grid(vectors);
    const ReduceParams p = first().placed(vectors, args.inputs[0], args.outputs[0], args.workspace);
    launch(args, forms_->get(vectors),
           {.blocks = grid.blocks, .threads = Grid::kThreads, .blocks_y = grid.splits}, p);
    if (grid.splits == 1) return;
    launch(args, finish_, {.blocks = divide_up(first().outputs(), kFinished)},
           Reduction::finish_params(p, grid.splits));
  }

  std::string detail() const override {
    return group_text(all_.size(), TensorTable<ReduceTensor>::kMost, "tensors");
  }

 private:
  const Reduction& first() const { return all_.front(); }
  std::string stem() const { return op_ + (first().by_columns ? "_columns" : "_rows"); }

  void run_group(const KernelArgs& args) {
    TableLaunches<ReduceGroupParams> by_vectors(args, forms_->get(true), Grid::kThreads),
        by_elements(args, forms_->get(false), Grid::kThreads);
    TableLaunches<ReduceFinishGroupParams> finished(args, finish_, Grid::kThreads);
    std::byte* workspace = args.workspace;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      const Reduction& of = all_[i];
      const bool vectors = of.has_vectors && begin_vectors({args.inputs[i]});
      const Grid& grid = of.grid(vectors);
      const ReduceParams p = of.placed(vectors, args.inputs[i], args.outputs[i], workspace);
      workspace += of.workspace_bytes();
      (vectors ? by_vectors : by_elements)
          .add(ReduceTensor{.of = {.x = p.x,
                                   .y = p.y,
                                   .totals = p.totals,
                                   .kept = narrowed(p.kept),
                                   .reduced = narrowed(p.reduced),
                                   .split_elements = p.split_elements,
                                   .threads = p.threads,
                                   .tiles = p.tiles,
                                   .y_dtype = p.y_dtype},
                            .blocks = grid.blocks},
               grid.blocks * grid.splits);
      if (grid.splits > 1 && grid.blocks > 0)
        finishes_.push_back(Reduction::finish_params(p, grid.splits));
    }
    by_vectors.run();
    by_elements.run();
    for (const ReduceFinishParams& p : finishes_) finished.add(p, divide_up(p.outputs, kFinished));
    finished.run();
    finishes_.clear();
  }

  std::string op_;
  Context& context_;
  std::vector<Reduction> all_;
  std::optional<AccessForms> forms_;
  Function finish_ = nullptr;
  std::vector<ReduceFinishParams> finishes_;  // of a run; kept to avoid allocation
};

std::unique_ptr<Kernel> make_sum(const NodeView& n, Context& context) {
  return std::make_unique<ReduceKernel>("reduce_sum", n, context);
}
std::unique_ptr<Kernel> make_max(const NodeView& n, Context& context) {
  return std::make_unique<ReduceKernel>("reduce_max", n, context);
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
