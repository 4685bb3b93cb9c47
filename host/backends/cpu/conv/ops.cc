// The kernels of causal_conv1d, causal_conv1d_grad and causal_conv1d_step.
#include "backends/cpu/conv/conv1d.h"
#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"

namespace lamina::cpu {
namespace {

Conv1d conv1d_of(const NodeView& n) {
  const Type& x = n.type(0);
  Conv1d p{.dtype = x.dtype,
           .batch = x.dim(0),
           .tokens = x.dim(1),
           .channels = x.dim(2),
           .width = n.type(1).dim(1),
           .dilation = n.i("dilation"),
           .w_dtype = n.type(1).dtype,
           .bias_dtype = n.has(2) ? n.type(2).dtype : DType::f32,
           .silu = n.s("activation") == "silu"};
  return p;
}

// Inputs 0 to 2.
void set_conv1d_inputs(Conv1d& p, const KernelArgs& args) {
  p.x = args.inputs[0];
  p.w = args.inputs[1];
  p.bias = args.inputs.size() > 2 ? args.inputs[2] : nullptr;
}

// Blocks of channels and tokens.
namespace causal_conv1d_op {

std::unique_ptr<Kernel> make(const NodeView& n) {
  Conv1dForward p;
  static_cast<Conv1d&>(p) = conv1d_of(n);
  const bool apart = n.has(3) && !n.i("across");
  return make_kernel(
      [p, apart](const KernelArgs& args) mutable {
        set_conv1d_inputs(p, args);
        p.segments = apart ? static_cast<const std::int32_t*>(args.inputs[3]) : nullptr;
        p.y = args.outputs[0];
        p.workspace = reinterpret_cast<float*>(args.workspace);
        conv1d_forward(p);
      },
      conv1d_forward_workspace_bytes(p));
}

constexpr KernelChoice kChoices[] = {{"channels", only_f32_and_bf16, make}};

}  // namespace causal_conv1d_op

// Blocks of channels, so that the gradients of w and bias have one order.
namespace causal_conv1d_grad_op {

std::unique_ptr<Kernel> make(const NodeView& n) {
  Conv1dBackward p;
  static_cast<Conv1d&>(p) = conv1d_of(n);
  const bool apart = n.has(3) && !n.i("across");
  const bool has_bias = n.has(2);
  return make_kernel(
      [p, apart, has_bias](const KernelArgs& args) mutable {
        set_conv1d_inputs(p, args);
        p.segments = apart ? static_cast<const std::int32_t*>(args.inputs[3]) : nullptr;
        p.dy = args.inputs[4];
        p.dx = args.outputs[0];
        p.dw = static_cast<float*>(args.outputs[1]);
        p.dbias = has_bias ? static_cast<float*>(args.outputs[2]) : nullptr;
        p.workspace = reinterpret_cast<float*>(args.workspace);
        conv1d_backward(p);
      },
      conv1d_backward_workspace_bytes(p));
}

constexpr KernelChoice kChoices[] = {{"channels", only_f32_and_bf16, make}};

}  // namespace causal_conv1d_grad_op

// Blocks of channels, each with its part of the window.
namespace causal_conv1d_step_op {

std::unique_ptr<Kernel> make(const NodeView& n) {
  Conv1dForward p;
  static_cast<Conv1d&>(p) = conv1d_of(n);
  const std::int64_t window_bytes = n.type(5).bytes();
  return make_kernel(
      [p, window_bytes](const KernelArgs& args) mutable {
        parallel_copy(args.outputs[1], args.inputs[5], window_bytes);  // nothing when in place
        set_conv1d_inputs(p, args);
        p.start = static_cast<const std::int32_t*>(args.inputs[3]);
        p.count = static_cast<const std::int32_t*>(args.inputs[4]);
        p.window = args.outputs[1];
        p.y = args.outputs[0];
        p.workspace = reinterpret_cast<float*>(args.workspace);
        conv1d_forward(p);
      },
      conv1d_forward_workspace_bytes(p));
}

constexpr KernelChoice kChoices[] = {
    {.name = "channels",
     .supports = only_f32_and_bf16,
     .make = make,
     .in_place = in_place_of(5),
     .writes_all = true},
};

}  // namespace causal_conv1d_step_op

constexpr OpKernels kOps[] = {
    {"causal_conv1d", causal_conv1d_op::kChoices},
    {"causal_conv1d_grad", causal_conv1d_grad_op::kChoices},
    {"causal_conv1d_step", causal_conv1d_step_op::kChoices},
};

}  // namespace

KernelTable conv_kernels() { return kOps; }

}  // namespace lamina::cpu
