// causal_conv1d_step: blocks of channels, each with its part of the window.
#include "backends/cpu/conv/conv1d_inputs.h"
#include "backends/cpu/kernels.h"

namespace lamina::cpu {
namespace {

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

}  // namespace

std::span<const KernelChoice> causal_conv1d_step_kernels() { return kChoices; }

}  // namespace lamina::cpu
