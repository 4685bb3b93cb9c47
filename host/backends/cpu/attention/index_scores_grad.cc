// index_scores_grad: tiles of pairs, made for the gradients of queries and again for those of keys.
#include "backends/cpu/attention/index_inputs.h"
#include "backends/cpu/kernels.h"

namespace lamina::cpu {
namespace {

class IndexScoresGradKernel final : public Kernel {
 public:
  explicit IndexScoresGradKernel(const NodeView& n) : spec_(index_spec(n)) {}

  std::size_t workspace_bytes() const override { return index_scores_grad_workspace_bytes(spec_); }

  void run(const KernelArgs& args) override {
    index_scores_grad(spec_,
                      {.q = args.inputs[0],
                       .k = args.inputs[1],
                       .weights = static_cast<const float*>(args.inputs[2]),
                       .dscores = static_cast<const float*>(args.inputs[3]),
                       .dq = args.outputs[0],
                       .dk = args.outputs[1],
                       .dweights = static_cast<float*>(args.outputs[2])},
                      args.workspace);
  }

 private:
  IndexSpec spec_;
};

Verdict supports(const NodeView& n) {
  if (n.type(3).dtype != DType::f32)
    return Verdict::no("takes gradients of scores in f32, got " + to_string(n.type(3)));
  return supports_index_scores(n);
}

std::unique_ptr<Kernel> make(const NodeView& n) {
  return std::make_unique<IndexScoresGradKernel>(n);
}

constexpr KernelChoice kChoices[] = {{"tiles", supports, make}};

}  // namespace

std::span<const KernelChoice> index_scores_grad_kernels() { return kChoices; }

}  // namespace lamina::cpu
