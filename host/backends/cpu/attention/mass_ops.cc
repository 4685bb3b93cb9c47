// attention_mass: softmaxes of a block of queries, head by head, added up where they go.
#include "backends/cpu/attention/mass.h"

#include <cmath>

#include "backends/cpu/kernel_support.h"
#include "backends/cpu/kernels.h"

namespace lamina::cpu {
namespace {

class AttentionMassKernel final : public Kernel {
 public:
  explicit AttentionMassKernel(const NodeView& n)
      : spec_{.dtype = n.type(0).dtype,
              .batch = n.type(0).dim(0),
              .q_tokens = n.type(0).dim(1),
              .k_tokens = n.type(1).dim(1),
              .heads = n.type(0).dim(2),
              .dim = n.type(0).dim(3),
              .scale = n.f("scale") != 0 ? n.f("scale")
                                         : 1 / std::sqrt(static_cast<double>(n.type(0).dim(3)))} {}

  std::size_t workspace_bytes() const override { return attention_mass_workspace_bytes(spec_); }

  void run(const KernelArgs& args) override {
    attention_mass(spec_,
                   {.q = args.inputs[0],
                    .k = args.inputs[1],
                    .keep = static_cast<const std::uint8_t*>(args.inputs[2]),
                    .p = static_cast<float*>(args.outputs[0])},
                   args.workspace);
  }

 private:
  MassSpec spec_;
};

std::unique_ptr<Kernel> make(const NodeView& n) { return std::make_unique<AttentionMassKernel>(n); }

constexpr KernelChoice kChoices[] = {{"blocks", only_f32_and_bf16, make}};

}  // namespace

std::span<const KernelChoice> attention_mass_kernels() { return kChoices; }

}  // namespace lamina::cpu
