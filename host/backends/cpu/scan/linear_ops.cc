// The kernels of linear_scan, linear_scan_grad and linear_scan_step.
#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"
#include "backends/cpu/scan/linear_scan.h"

namespace lamina::cpu {
namespace {

// The inputs that all three ops have, at the same places (host/ops/linear_tokens.cc).
namespace in = operand::linear_scan;

LinearScan linear_scan_of(const NodeView& n) {
  const Type& b = n.type(in::kB);
  return {.batch = b.dim(0),
          .tokens = b.dim(1),
          .channels = b.dim(2),
          .a = {nullptr, n.type(in::kA).dtype},
          .b = {nullptr, b.dtype}};
}

void set_inputs(LinearScan& p, const KernelArgs& args) {
  p.a.data = args.inputs[in::kA];
  p.b.data = args.inputs[in::kB];
}

const std::int32_t* numbers(const KernelArgs& args, std::size_t input) {
  return static_cast<const std::int32_t*>(args.inputs[input]);
}

// Blocks of channels.
namespace linear_scan_op {

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  LinearScanForward p;
  static_cast<LinearScan&>(p) = linear_scan_of(n);
  p.y.dtype = n.out_type().dtype;
  return make_kernel([p](const KernelArgs& args) mutable {
    set_inputs(p, args);
    p.segments = numbers(args, in::kSegments);
    p.y.data = args.outputs[0];
    linear_scan_forward(p);
  });
}

constexpr KernelChoice kChoices[] = {
    {"channels", only_f32_and_bf16, make, in_place_of(in::kA) | in_place_of(in::kB)}};

}  // namespace linear_scan_op

// Recomputes the states of all tokens.
namespace linear_scan_grad_op {

namespace grad = operand::linear_scan_grad;

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  LinearScanBackward p;
  static_cast<LinearScan&>(p) = linear_scan_of(n);
  p.dy.dtype = n.type(grad::kDy).dtype;
  return make_kernel(
      [p](const KernelArgs& args) mutable {
        set_inputs(p, args);
        p.segments = numbers(args, grad::kSegments);
        p.dy.data = args.inputs[grad::kDy];
        p.da.data = args.outputs[0];
        p.db.data = args.outputs[1];
        p.workspace = reinterpret_cast<float*>(args.workspace);
        linear_scan_backward(p);
      },
      linear_scan_backward_workspace_bytes(p));
}

constexpr KernelChoice kChoices[] = {
    {.name = "channels", .supports = only_f32_and_bf16, .make = make, .writes_all = true}};

}  // namespace linear_scan_grad_op

// Blocks of channels, each with its part of the state.
namespace linear_scan_step_op {

namespace step = operand::linear_scan_step;

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  LinearScanForward p;
  static_cast<LinearScan&>(p) = linear_scan_of(n);
  p.y.dtype = n.out_type().dtype;
  const std::int64_t state_bytes = n.type(step::kState).bytes();
  return make_kernel([p, state_bytes](const KernelArgs& args) mutable {
    parallel_copy(args.outputs[1], args.inputs[step::kState], state_bytes);  // nothing in place
    set_inputs(p, args);
    p.start = numbers(args, step::kStart);
    p.count = numbers(args, step::kCount);
    p.state = static_cast<float*>(args.outputs[1]);
    p.y.data = args.outputs[0];
    linear_scan_forward(p);
  });
}

constexpr KernelChoice kChoices[] = {{.name = "channels",
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

}  // namespace lamina::cpu
