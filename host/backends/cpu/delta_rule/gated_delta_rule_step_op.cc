// gated_delta_rule_step: few tokens one by one with the state in place, many in chunks.
#include "backends/cpu/delta_rule/delta_rule_inputs.h"
#include "backends/cpu/kernels.h"

namespace lamina::cpu {
namespace {

constexpr int kStart = 5, kCount = 6, kState = 7;

class StepKernel final : public Kernel {
 public:
  explicit StepKernel(const NodeView& n) : state_bytes_(n.type(kState).bytes()) {
    static_cast<DeltaRule&>(p_) = delta_rule_of(n);
    p_.y.dtype = n.out_type().dtype;
    // The workspace depends on whether there is a state, not on where it is.
    static float anywhere = 0;
    DeltaRuleForward sized = p_;
    sized.state = &anywhere;
    workspace_bytes_ = delta_rule_forward_workspace_bytes(sized);
  }
  std::size_t workspace_bytes() const override { return workspace_bytes_; }
  std::string detail() const override {
    return delta_rule_is_recurrent(p_.tokens) ? "token by token" : "in chunks";
  }
  void run(const KernelArgs& args) override {
    parallel_copy(args.outputs[1], args.inputs[kState], state_bytes_);  // nothing when in place
    set_delta_rule_inputs(p_, args);
    p_.start = static_cast<const std::int32_t*>(args.inputs[kStart]);
    p_.count = static_cast<const std::int32_t*>(args.inputs[kCount]);
    p_.state = static_cast<float*>(args.outputs[1]);
    p_.y.data = args.outputs[0];
    p_.workspace = reinterpret_cast<float*>(args.workspace);
    delta_rule_forward(p_);
  }

 private:
  DeltaRuleForward p_;
  std::int64_t state_bytes_;
  std::size_t workspace_bytes_;
};

std::unique_ptr<Kernel> make(const NodeView& n) { return std::make_unique<StepKernel>(n); }

constexpr KernelChoice kChoices[] = {
    {.name = "state",
     .supports = only_f32_and_bf16,
     .make = make,
     .in_place = in_place_of(kState),
     .writes_all = true},
};

}  // namespace

std::span<const KernelChoice> gated_delta_rule_step_kernels() { return kChoices; }

}  // namespace lamina::cpu
