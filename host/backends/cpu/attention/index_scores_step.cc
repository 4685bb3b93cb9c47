// index_scores_step: the tiles of index_scores up to the last key that a token may see.
#include "backends/cpu/attention/index_inputs.h"
#include "backends/cpu/kernels.h"

namespace lamina::cpu {
namespace {

class IndexScoresStepKernel final : public Kernel {
 public:
  explicit IndexScoresStepKernel(const NodeView& n)
      : spec_(index_spec(n)),
        stride_(static_cast<std::int32_t>(n.i("stride"))),
        ends_bytes_(aligned(static_cast<std::size_t>(spec_.batch) * sizeof(std::int32_t))) {}

  std::size_t workspace_bytes() const override {
    return ends_bytes_ + index_scores_workspace_bytes(spec_);
  }

  void run(const KernelArgs& args) override {
    const auto* starts = static_cast<const std::int32_t*>(args.inputs[3]);
    auto* ends = reinterpret_cast<std::int32_t*>(args.workspace);
    for (std::int64_t b = 0; b < spec_.batch; ++b)
      ends[b] = (starts[b] + static_cast<std::int32_t>(spec_.tokens)) / stride_;
    IndexArgs scores = index_args(args);
    scores.ends = ends;
    index_scores(spec_, scores, args.workspace + ends_bytes_);
  }

 private:
  IndexSpec spec_;
  std::int32_t stride_;
  std::size_t ends_bytes_;
};

std::unique_ptr<Kernel> make(const NodeView& n) {
  return std::make_unique<IndexScoresStepKernel>(n);
}

constexpr KernelChoice kChoices[] = {{"tiles", supports_index_scores, make}};

}  // namespace

std::span<const KernelChoice> index_scores_step_kernels() { return kChoices; }

}  // namespace lamina::cpu
