// index_scores: products of a tile of keys with all heads, weighted before they are stored.
#include "backends/cpu/attention/index_inputs.h"
#include "backends/cpu/kernels.h"

namespace lamina::cpu {
namespace {

class IndexScoresKernel final : public Kernel {
 public:
  explicit IndexScoresKernel(const NodeView& n) : spec_(index_spec(n)) {}

  std::size_t workspace_bytes() const override { return index_scores_workspace_bytes(spec_); }

  void run(const KernelArgs& args) override {
    index_scores(spec_, index_args(args), args.workspace);
  }

 private:
  IndexSpec spec_;
};

std::unique_ptr<Kernel> make(const NodeView& n) { return std::make_unique<IndexScoresKernel>(n); }

constexpr KernelChoice kChoices[] = {{"tiles", supports_index_scores, make}};

}  // namespace

std::span<const KernelChoice> index_scores_kernels() { return kChoices; }

}  // namespace lamina::cpu
