// The kernels of select_rows and cache_write.
#include "backends/cuda/layout/row_ops.h"

#include "backends/cuda/kernel_support.h"
#include "backends/cuda/layout/params.h"
#include "backends/cuda/stored/rows.h"
#include "backends/cuda/units.h"

namespace lamina::cuda {
namespace {

// Launches the kernel that moves rows of `row_bytes`. The addresses in `p` are set.
void move_rows(const KernelArgs& args, const UnitKernels& kernels, MoveRowsParams p,
               std::int64_t row_bytes) {
  if (row_bytes == 0) return;
  const std::int64_t unit = UnitKernels::unit_of({row_bytes}, {p.x, p.y});
  p.width = gpu::divisor_of(row_bytes / unit);
  launch(args, kernels.of(unit), shape_for_units(p.num_rows * p.width.by), p);
}

// One row from each x[b]; a row outside of x gives zeros.
namespace select_rows_op {

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  const Type& x = n.type(0);
  MoveRowsParams p{};
  p.num_rows = x.dim(0);
  p.rows_of_x = x.dim(1);
  return make_kernel(
      [p, row_bytes = x.dim(2) * size_bytes(x.dtype),
       kernels = UnitKernels(context, "select_rows")](const KernelArgs& args) mutable {
        p.x = address(args.inputs[0]);
        p.index = address(args.inputs[1]);
        p.y = address(args.outputs[0]);
        move_rows(args, kernels, p, row_bytes);
      });
}

constexpr KernelChoice kChoices[] = {{"rows", always, make}};

}  // namespace select_rows_op

// Slots outside of the cache are ignored.
namespace cache_write_op {

Verdict supports(const NodeView& n) {
  if (n.type(0).storage) return Verdict::no("writes plain rows, got " + to_string(n.type(0)));
  return Verdict::yes();
}

Verdict supports_rounded(const NodeView& n) {
  if (!n.type(0).storage) return Verdict::no("writes stored rows, got " + to_string(n.type(0)));
  return supports_rows(n.type(0));
}

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  const Type& cache = n.type(0);
  const std::int64_t tokens = n.type(1).dim(1);
  MoveRowsParams p{};
  p.num_rows = cache.dim(0) * tokens;
  p.tokens = gpu::divisor_of(tokens);
  p.slots = cache_slots(n, cache);
  return make_kernel(
      [p, row_bytes = product(cache.shape, 2, cache.ndim()) * size_bytes(cache.dtype),
       cache_bytes = static_cast<std::size_t>(cache.bytes()),
       kernels = UnitKernels(context, "cache_write")](const KernelArgs& args) mutable {
        copy_bytes(args, args.outputs[0], args.inputs[0], cache_bytes);  // no copy when in place
        p.x = address(args.inputs[1]);
        p.index = address(args.inputs[2]);
        p.y = address(args.outputs[0]);
        move_rows(args, kernels, p, row_bytes);
      });
}

// Rounds each row to the numbers of the cache.
std::unique_ptr<Kernel> make_rounded(const NodeView& n, Context& context) {
  const Type& cache = n.type(0);
  const std::int64_t tokens = n.type(1).dim(1);
  RoundRowsParams p{};
  p.width = cache.storage->num_values;
  p.kind = row_kind(cache);
  p.heads = gpu::divisor_of(product(cache.shape, 2, cache.ndim()) / p.width);
  p.tokens = gpu::divisor_of(tokens);
  p.num_rows = cache.dim(0) * tokens * p.heads.by;
  p.slots = cache_slots(n, cache);
  return make_kernel([p, cache_bytes = static_cast<std::size_t>(cache.bytes()),
                      kernel = function(context, "cache_write_rounded", cache.dtype)](
                         const KernelArgs& args) mutable {
    copy_bytes(args, args.outputs[0], args.inputs[0], cache_bytes);  // no copy when in place
    p.x = address(args.inputs[1]);
    p.start = address(args.inputs[2]);
    p.y = address(args.outputs[0]);
    constexpr int kThreads = 128;
    launch(args, kernel, {.blocks = grid_for(p.num_rows, kThreads / 32), .threads = kThreads}, p);
  });
}

constexpr KernelChoice kChoices[] = {{"rows", supports, make},
                                     {"rounded rows", supports_rounded, make_rounded}};

}  // namespace cache_write_op

constexpr OpKernels kOps[] = {
    {"select_rows", select_rows_op::kChoices},
    {"cache_write", cache_write_op::kChoices},
};

}  // namespace

KernelTable row_kernels() { return kOps; }

CacheSlots cache_slots(const NodeView& n, const Type& cache) {
  const std::int64_t first = n.i("first");
  return {.capacity = cache.dim(1),
          .first = first,
          .slots = n.i("slots") > 0 ? n.i("slots") : cache.dim(1) - first,
          .ring = n.i("ring") != 0};
}

}  // namespace lamina::cuda
