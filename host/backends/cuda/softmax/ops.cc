// softmax: a block for each row.
#include "backends/cuda/kernel_support.h"
#include "backends/cuda/softmax/params.h"

namespace lamina::cuda {
namespace {

Verdict supports(const NodeView& n) {
  constexpr std::int64_t kWidest = 1 << 30;
  if (n.type(0).dim(-1) > kWidest)
    return Verdict::no("takes rows of up to 2^30 numbers, got " + to_string(n.type(0)));
  return Verdict::yes();
}

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  const Type& x = n.type(0);
  const Function softmax = function(context, "softmax", x.dtype);
  SoftmaxParams p{.x = {}, .y = {}, .num_rows = num_rows(x), .width = static_cast<int>(x.dim(-1))};
  return make_kernel([p, softmax](const KernelArgs& args) mutable {
    p.x = address(args.inputs[0]);
    p.y = address(args.outputs[0]);
    launch(args, softmax, {.blocks = grid_for(p.num_rows), .threads = p.width > 1024 ? 512 : 128},
           p);
  });
}

constexpr KernelChoice kChoices[] = {{"rows", supports, make, in_place_of(0)}};

constexpr OpKernels kOps[] = {
    {"softmax", kChoices},
};

}  // namespace

KernelTable softmax_kernels() { return kOps; }

}  // namespace lamina::cuda
