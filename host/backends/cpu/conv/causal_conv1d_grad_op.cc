// causal_conv1d_grad: blocks of channels, so that the gradients of w and bias have one order.
#include "backends/cpu/conv/conv1d_inputs.h"
#include "backends/cpu/kernels.h"

namespace lamina::cpu {
namespace {

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

}  // namespace

std::span<const KernelChoice> causal_conv1d_grad_kernels() { return kChoices; }

}  // namespace lamina::cpu
