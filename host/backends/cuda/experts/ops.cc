// The kernels of group_rows, gather_rows, combine_rows and combine_rows_grad.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "backends/cuda/access.h"
#include "backends/cuda/embedding/copy_rows.h"
#include "backends/cuda/embedding/sort.h"
#include "backends/cuda/experts/params.h"
#include "backends/cuda/kernel_support.h"
#include "core/round_up.h"
#include "ops/group_capacity.h"

namespace lamina::cuda {
namespace {

// Threads for the columns of a row.
int row_threads(std::int64_t width, int columns) {
  return static_cast<int>(
      std::clamp<std::int64_t>(round_up(divide_up(width, columns), 32), 32, 256));
}

// A counting sort. With a capacity, a sort by element and group first gives each assignment its
// rank among those that share a capacity.
namespace group_rows_op {

std::int64_t per_element(const NodeView& n) {
  const Shape& shape = n.type(0).shape;
  return std::max<std::int64_t>(1, product(shape, 1, shape.ndim()));
}

Verdict supports(const NodeView& n) {
  const std::int64_t count = n.type(0).num_elements(), groups = n.i("groups");
  if (count > StableSort::kMaxCount)
    return Verdict::no("takes up to 2^30 assignments, got " + to_string(n.type(0)));
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const std::int64_t elements = ops::group_capacity(n) > 0 ? count / per_element(n) : 1;
  if (groups >= kMost / std::max<std::int64_t>(1, elements))
    return Verdict::no(fmt::format("takes fewer than 2^31 groups, got {} for each of {} elements",
                                   groups, elements));
  return Verdict::yes();
}

class GroupRowsKernel final : public Kernel {
 public:
  GroupRowsKernel(const NodeView& n, Context& context)
      : count_(n.type(0).num_elements()),
        groups_(n.i("groups")),
        capacity_(ops::group_capacity(n)),
        per_element_(per_element(n)),
        by_group_(context, count_, groups_),
        by_element_(context, count_,
                    capacity_ > 0 ? count_ / per_element_ * (groups_ + 1) : groups_),
        keys_(function(context, "group_rows_keys")),
        kept_(function(context, "group_rows_kept")) {}

  std::size_t workspace_bytes() const override {
    const std::size_t sorts = std::max(by_group_.workspace_bytes(), by_element_.workspace_bytes());
    return sorts + (capacity_ > 0 ? 3 * list_bytes() : 0);
  }

  void run(const KernelArgs& args) override {
    if (count_ == 0)
      return fill_zeros(args, args.outputs[1], static_cast<std::size_t>(groups_ + 1) * 4);
    gpu::Address ids = address(args.inputs[0]);
    std::byte* sort_memory = args.workspace;
    if (capacity_ > 0) {
      ids = apply_capacity(args);
      sort_memory += 3 * list_bytes();
    }
    by_group_.run(args,
                  {.keys = ids,
                   .sorted_keys = {},
                   .sorted_places = address(args.outputs[0]),
                   .starts = address(args.outputs[1])},
                  sort_memory);
  }

 private:
  std::size_t list_bytes() const { return aligned(static_cast<std::size_t>(count_) * 4); }

  // Returns the groups of the assignments, `groups` from the capacity on.
  gpu::Address apply_capacity(const KernelArgs& args) const {
    CapacityParams p{.ids = address(args.inputs[0]),
                     .keys = address(args.workspace),
                     .places = {},
                     .kept = address(args.workspace),
                     .count = count_,
                     .per_element = per_element_,
                     .groups = static_cast<std::int32_t>(groups_),
                     .capacity = static_cast<std::int32_t>(capacity_)};
    const LaunchShape shape{.blocks = grid_for(count_, 256), .threads = 256};
    launch(args, keys_, shape, p);
    const gpu::Address sorted = address(args.workspace + list_bytes());
    p.places = address(args.workspace + 2 * list_bytes());
    by_element_.run(args, {.keys = p.keys, .sorted_keys = sorted, .sorted_places = p.places},
                    args.workspace + 3 * list_bytes());
    p.keys = sorted;
    launch(args, kept_, shape, p);
    return p.kept;
  }

  std::int64_t count_, groups_, capacity_, per_element_;
  StableSort by_group_, by_element_;
  Function keys_, kept_;
};

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  return std::make_unique<GroupRowsKernel>(n, context);
}

constexpr KernelChoice kChoices[] = {
    {.name = "radix sort", .supports = supports, .make = make, .writes_all = true}};

}  // namespace group_rows_op

// A place outside of x gives zeros.
namespace gather_rows_op {

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  const Type& x = n.type(0);
  const CopyRows copy(context, x.dim(-1) * size_bytes(x.dtype), num_rows(x), n.type(1).dim(0),
                      n.i("divide"));
  return make_kernel([copy](const KernelArgs& args) {
    copy.run(args, args.inputs[0], args.inputs[1], args.outputs[0]);
  });
}

constexpr KernelChoice kChoices[] = {{"copy", always, make}};

}  // namespace gather_rows_op

constexpr std::int64_t kMostRows = std::numeric_limits<std::int32_t>::max();

Verdict supports_rows(const NodeView& n) {
  if (n.type(0).dim(0) > kMostRows || n.type(2).dim(-1) > kMostRows)
    return Verdict::no("takes up to 2^31 - 1 rows, got " + to_string(n.type(0)));
  return Verdict::yes();
}

// Finds the rows of a token in the order: by a search for few rows, which saves launches in decode
// calls, or through the inverse of the order.
namespace combine_rows_op {

// A block of 256 threads searches this many with a few loads per thread.
constexpr std::int64_t kMostSearched = 2048;

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  const ColumnForms combine(context, "combine_rows", n.type(0).dtype, n.type(0).dim(1));
  const Function invert = function(context, "combine_rows_invert");
  CombineRowsParams p{};
  p.rows = n.type(0).dim(0);
  p.tokens = num_rows(n.type(2));
  p.width = n.type(0).dim(1);
  p.k = static_cast<std::int32_t>(n.type(2).dim(-1));
  const bool searches = p.rows <= kMostSearched && p.k <= kMaxSearchedPlaces;
  const std::size_t bytes = searches ? 0 : static_cast<std::size_t>(p.rows) * 4;
  return make_kernel(
      [=](const KernelArgs& args) mutable {
        p.x = address(args.inputs[0]);
        p.order = address(args.inputs[1]);
        p.weights = address(args.inputs[2]);
        p.y = address(args.outputs[0]);
        if (!searches) {
          p.places = address(args.workspace);
          fill_zeros(args, args.workspace, bytes);
          launch(args, invert, {.blocks = grid_for(p.rows, 256), .threads = 256}, p);
        }
        // A search needs a thread for each assignment of a token.
        const int columns = combine.columns({p.x, p.y});
        const int threads =
            std::max(row_threads(p.width, columns), searches ? kMaxSearchedPlaces : 32);
        launch(args, combine.get(columns),
               {.blocks = p.width == 0 ? 0 : grid_for(p.tokens), .threads = threads}, p);
      },
      bytes);
}

constexpr KernelChoice kChoices[] = {{"tokens", supports_rows, make}};

}  // namespace combine_rows_op

// Computes both gradients in one pass over the rows.
namespace combine_rows_grad_op {

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  const ColumnForms gradient(context, "combine_rows_grad", n.type(0).dtype, n.type(0).dim(1));
  CombineRowsGradParams p{};
  p.rows = n.type(0).dim(0);
  p.width = n.type(0).dim(1);
  p.k = static_cast<std::int32_t>(n.type(2).dim(-1));
  return make_kernel([=](const KernelArgs& args) mutable {
    p.x = address(args.inputs[0]);
    p.order = address(args.inputs[1]);
    p.weights = address(args.inputs[2]);
    p.dy = address(args.inputs[3]);
    p.dx = address(args.outputs[0]);
    p.dweights = address(args.outputs[1]);
    const int columns = gradient.columns({p.x, p.dy, p.dx});
    launch(args, gradient.get(columns),
           {.blocks = grid_for(p.rows), .threads = row_threads(p.width, columns)}, p);
  });
}

constexpr KernelChoice kChoices[] = {{"rows", supports_rows, make}};

}  // namespace combine_rows_grad_op

constexpr OpKernels kOps[] = {
    {"group_rows", group_rows_op::kChoices},
    {"gather_rows", gather_rows_op::kChoices},
    {"combine_rows", combine_rows_op::kChoices},
    {"combine_rows_grad", combine_rows_grad_op::kChoices},
};

}  // namespace

KernelTable experts_kernels() { return kOps; }

}  // namespace lamina::cuda
