// index_scores: products of a tile of keys with all heads, weighted before they are stored.
#include "backends/cpu/latent_attention.h"
#include "backends/cpu/ops/kernel_support.h"
#include "backends/cpu/ops/kernels.h"

namespace lamina::cpu {
namespace {

class IndexScoresKernel final : public Kernel {
 public:
  explicit IndexScoresKernel(const NodeView& n)
      : spec_{.dtype = n.type(0).dtype,
              .batch = n.type(0).dim(0),
              .tokens = n.type(0).dim(1),
              .keys = n.type(1).dim(1),
              .heads = n.type(0).dim(2),
              .dim = n.type(0).dim(3)} {}

  std::size_t workspace_bytes() const override { return index_scores_workspace_bytes(spec_); }

  void run(const KernelArgs& args) override {
    index_scores(spec_,
                 {.q = args.inputs[0],
                  .k = args.inputs[1],
                  .weights = static_cast<const float*>(args.inputs[2]),
                  .scores = static_cast<float*>(args.outputs[0])},
                 args.workspace);
  }

 private:
  IndexSpec spec_;
};

Verdict supports(const NodeView& n) {
  if (n.type(2).dtype != DType::f32)
    return Verdict::no("takes weights in f32, got " + to_string(n.type(2)));
  return only_f32_and_bf16(n);
}

std::unique_ptr<Kernel> make(const NodeView& n) { return std::make_unique<IndexScoresKernel>(n); }

constexpr KernelChoice kChoices[] = {{"tiles", supports, make}};

}  // namespace

std::span<const KernelChoice> index_scores_kernels() { return kChoices; }

}  // namespace lamina::cpu
