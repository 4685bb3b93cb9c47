// linear_scan, linear_scan_grad and linear_scan_step.
#include "backends/cuda/kernel_support.h"
#include "backends/cuda/linear_scan/params.h"
#include "backends/cuda/typed.h"
#include "core/round_up.h"
#include "ops/operands.h"

namespace lamina::cuda {
namespace {

// The inputs that all three ops have, at the same places (host/ops/linear_tokens.cc).
namespace in = operand::linear_scan;

LinearScanParams scan_of(const NodeView& n) {
  LinearScanParams p{};
  const Type& b = n.type(in::kB);
  p.batch = b.dim(0), p.tokens = b.dim(1), p.channels = b.dim(2);
  p.a = typed(n.type(in::kA).dtype);
  p.b = p.y = typed(b.dtype);
  return p;
}

// Warps of a block: short rows need few. Results depend on it, and it on the number of tokens only.
std::int64_t num_warps(std::int64_t tokens) {
  return std::clamp<std::int64_t>(divide_up(tokens, kLinearTokens), 1, kLinearMostWarps);
}
template <typename Params>
LaunchShape blocks_for(const Params& p) {
  return {.blocks = p.batch * divide_up(p.channels, kLinearChannels),
          .threads = static_cast<int>(32 * num_warps(p.tokens))};
}

namespace linear_scan_op {

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  const Function forward = function(context, "linear_scan_forward");
  return make_kernel([p = scan_of(n), forward](const KernelArgs& args) mutable {
    p.a.at = address(args.inputs[in::kA]);
    p.b.at = address(args.inputs[in::kB]);
    p.segments = address(args.inputs[in::kSegments]);
    p.y.at = address(args.outputs[0]);
    launch(args, forward, blocks_for(p), p);
  });
}

constexpr KernelChoice kChoices[] = {
    {"tiles", only_f32_and_bf16, make, in_place_of(in::kA) | in_place_of(in::kB)}};

}  // namespace linear_scan_op

// Computes the state before each tile, and with it the tiles from the last to the first.
namespace linear_scan_grad_op {

namespace grad = operand::linear_scan_grad;

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  LinearScanParams states = scan_of(n);
  LinearScanGradParams p{};
  p.batch = states.batch, p.tokens = states.tokens, p.channels = states.channels;
  p.a = p.da = states.a;
  p.b = p.db = states.b;
  p.dy = typed(n.type(grad::kDy).dtype);
  const std::int64_t tiles = divide_up(p.tokens, kLinearTokens * num_warps(p.tokens));
  const Function forward = function(context, "linear_scan_forward");
  const Function backward = function(context, "linear_scan_backward");
  return make_kernel(
      [=](const KernelArgs& args) mutable {
        p.a.at = states.a.at = address(args.inputs[grad::kA]);
        p.b.at = states.b.at = address(args.inputs[grad::kB]);
        p.segments = states.segments = address(args.inputs[grad::kSegments]);
        p.saved = states.saved = address(args.workspace);
        p.dy.at = address(args.inputs[grad::kDy]);
        p.da.at = address(args.outputs[0]);
        p.db.at = address(args.outputs[1]);
        launch(args, forward, blocks_for(states), states);
        launch(args, backward, blocks_for(p), p);
      },
      static_cast<std::size_t>(4 * p.batch * tiles * p.channels));
}

constexpr KernelChoice kChoices[] = {
    {.name = "tiles", .supports = only_f32_and_bf16, .make = make, .writes_all = true}};

}  // namespace linear_scan_grad_op

namespace linear_scan_step_op {

namespace step = operand::linear_scan_step;

std::unique_ptr<Kernel> make(const NodeView& n, Context& context) {
  const Function forward = function(context, "linear_scan_forward");
  return make_kernel([p = scan_of(n), forward](const KernelArgs& args) mutable {
    p.a.at = address(args.inputs[step::kA]);
    p.b.at = address(args.inputs[step::kB]);
    p.start = address(args.inputs[step::kStart]);
    p.count = address(args.inputs[step::kCount]);
    p.state = address(args.inputs[step::kState]);
    p.y.at = address(args.outputs[0]);
    p.new_state = address(args.outputs[1]);
    launch(args, forward, blocks_for(p), p);
  });
}

constexpr KernelChoice kChoices[] = {{.name = "tiles",
                                      .supports = only_f32_and_bf16,
                                      .make = make,
                                      .in_place = in_place_of(step::kState),
                                      .writes_all = true}};

}  // namespace linear_scan_step_op

constexpr OpKernels kOps[] = {
    {"linear_scan", linear_scan_op::kChoices},
    {"linear_scan_grad", linear_scan_grad_op::kChoices},
    {"linear_scan_step", linear_scan_step_op::kChoices},
};

}  // namespace

KernelTable linear_scan_kernels() { return kOps; }

}  // namespace lamina::cuda
