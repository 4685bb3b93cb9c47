// causal_conv1d: blocks of channels and tokens.
#include "backends/cpu/conv/conv1d_inputs.h"
#include "backends/cpu/kernels.h"

namespace lamina::cpu {
namespace {

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

}  // namespace

std::span<const KernelChoice> causal_conv1d_kernels() { return kChoices; }

}  // namespace lamina::cpu
