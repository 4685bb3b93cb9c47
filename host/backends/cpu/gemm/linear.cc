// linear: one product, weights streamed for few rows and tiled for many. Other dtypes are lowered.
#include "backends/cpu/gemm/products.h"
#include "backends/cpu/kernels.h"

namespace lamina::cpu {
namespace {

const Type* bias_of(const NodeView& n) { return n.has(2) ? &n.type(2) : nullptr; }

Verdict supports(const NodeView& n) {
  return gemm_takes(n.type(0).dtype, n.type(0).dtype, bias_of(n));
}

class LinearKernel final : public Kernel {
 public:
  explicit LinearKernel(const NodeView& n)
      : gemm_(make_checked_gemm(linear_spec(n.type(0), n.type(1), bias_of(n)))) {}

  std::size_t workspace_bytes() const override { return gemm_->workspace_bytes(); }
  std::string detail() const override { return std::string(gemm_->kernel()); }
  void run(const KernelArgs& args) override {
    const void* bias = args.inputs.size() > 2 ? args.inputs[2] : nullptr;
    gemm_->run(args.inputs[0], args.inputs[1], bias, args.outputs[0], args.workspace);
  }

 private:
  std::unique_ptr<Gemm> gemm_;
};

std::unique_ptr<Kernel> make(const NodeView& n) { return std::make_unique<LinearKernel>(n); }

constexpr KernelChoice kChoices[] = {{"gemm", supports, make}};

}  // namespace

std::span<const KernelChoice> linear_kernels() { return kChoices; }

}  // namespace lamina::cpu
