// random and dropout. Their numbers are the CPU's.
#include <cmath>

#include "backends/cuda/kernel_support.h"
#include "backends/cuda/random/params.h"
#include "ops/operands.h"

namespace lamina::cuda {
namespace {

constexpr int kThreads = 256;

LaunchShape shape_for(const RandomParams& p) {
  return {.blocks = grid_for(p.num_elements, kThreads * 4), .threads = kThreads};
}

namespace dropout_op {

namespace in = operand::dropout;

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  const Type& x = n.type(0);
  const auto rate = static_cast<float>(n.f("rate"));
  // As the CPU does: in f32 for the narrow types.
  const double scale = x.dtype == DType::f64 ? 1.0 / (1.0 - static_cast<double>(rate))
                                             : static_cast<double>(1.0f / (1.0f - rate));
  RandomParams p{.seed = {},
                 .layer = {},
                 .x = {},
                 .y = {},
                 .stream = n.i("stream"),
                 .num_elements = x.num_elements(),
                 .threshold = static_cast<std::uint64_t>(
                     std::llround(static_cast<double>(rate) * 4294967296.0)),
                 .scale = scale};
  return make_kernel(
      [p, drop = function(context, "dropout", x.dtype)](const KernelArgs& args) mutable {
        p.seed = address(args.inputs[in::kSeed]);
        p.layer = address(args.inputs[in::kLayer]);
        p.x = address(args.inputs[0]);
        p.y = address(args.outputs[0]);
        launch(args, drop, shape_for(p), p);
      });
}

constexpr KernelChoice kChoices[] = {{"numbers", always, make, in_place_of(0)}};

}  // namespace dropout_op

namespace random_op {

namespace in = operand::random;

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  RandomParams p{.seed = {},
                 .layer = {},
                 .x = {},
                 .y = {},
                 .stream = n.i("stream"),
                 .num_elements = n.out_type().num_elements(),
                 .threshold = 0,
                 .scale = 1};
  return make_kernel([p, random = function(context, "random_f32")](const KernelArgs& args) mutable {
    p.seed = address(args.inputs[in::kSeed]);
    p.layer = address(args.inputs[in::kLayer]);
    p.y = address(args.outputs[0]);
    launch(args, random, shape_for(p), p);
  });
}

constexpr KernelChoice kChoices[] = {{"numbers", always, make}};

}  // namespace random_op

constexpr OpKernels kOps[] = {
    {"dropout", dropout_op::kChoices},
    {"random", random_op::kChoices},
};

}  // namespace

KernelTable random_kernels() { return kOps; }

}  // namespace lamina::cuda
