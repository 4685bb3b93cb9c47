// gated_delta_rule: in chunks of 64 tokens.
#include "backends/cpu/delta_rule/delta_rule_inputs.h"
#include "backends/cpu/kernels.h"

namespace lamina::cpu {
namespace {

std::unique_ptr<Kernel> make(const NodeView& n) {
  DeltaRuleForward p;
  static_cast<DeltaRule&>(p) = delta_rule_of(n);
  p.y.dtype = n.out_type().dtype;
  const bool apart = n.has(5) && !n.i("across");
  return make_kernel(
      [p, apart](const KernelArgs& args) mutable {
        set_delta_rule_inputs(p, args);
        p.segments = apart ? static_cast<const std::int32_t*>(args.inputs[5]) : nullptr;
        p.y.data = args.outputs[0];
        p.workspace = reinterpret_cast<float*>(args.workspace);
        delta_rule_forward(p);
      },
      delta_rule_forward_workspace_bytes(p));
}

constexpr KernelChoice kChoices[] = {{"chunks", only_f32_and_bf16, make}};

}  // namespace

std::span<const KernelChoice> gated_delta_rule_kernels() { return kChoices; }

}  // namespace lamina::cpu
