// latent_attention_step: queries absorb the key matrix, and latents are read once for all heads.
#include <cmath>

#include "backends/cpu/attention/inputs.h"
#include "backends/cpu/attention/latent.h"
#include "backends/cpu/kernels.h"

namespace lamina::cpu {
namespace {

namespace in = operand::latent_attention_step;

class LatentAttentionKernel final : public Kernel {
 public:
  explicit LatentAttentionKernel(const NodeView& n) {
    const Type& q = n.type(in::kQ);
    const Type& latent = n.type(in::kLatent);
    const std::int64_t nope = n.i("nope_dim");
    spec_ = {.dtype = q.dtype,
             .batch = q.dim(0),
             .tokens = q.dim(1),
             .capacity = latent.dim(1),
             .heads = q.dim(2),
             .nope_dim = nope,
             .rope_dim = q.dim(3) - nope,
             .v_dim = n.out_type(0).dim(3),
             .rank = latent.dim(2),
             .scale = n.f("scale") != 0 ? n.f("scale") : 1 / std::sqrt(double(q.dim(3))),
             .soft_cap = n.f("soft_cap")};
  }

  std::size_t workspace_bytes() const override { return latent_attention_workspace_bytes(spec_); }

  void run(const KernelArgs& args) override {
    latent_attention(spec_,
                     {.q = args.inputs[in::kQ],
                      .latent = args.inputs[in::kLatent],
                      .k_rope = args.inputs[in::kKRope],
                      .w_kv = args.inputs[in::kWKv],
                      .starts = static_cast<const std::int32_t*>(args.inputs[in::kStart]),
                      .keep = static_cast<const std::uint8_t*>(args.inputs[in::kMask]),
                      .y = args.outputs[0]},
                     args.workspace);
  }

 private:
  LatentSpec spec_;
};

Verdict supports(const NodeView& n) {
  if (n.type(in::kQ).dtype == DType::bf16 && n.type(in::kLatent).dim(2) % 2 != 0)
    return Verdict::no("takes latents of even width in bf16");
  if (n.type(in::kKRope).dim(2) == 0) return Verdict::no("takes heads with rotary dims");
  return only_f32_and_bf16(n);
}

std::unique_ptr<Kernel> make(const NodeView& n, Context&) {
  return std::make_unique<LatentAttentionKernel>(n);
}

constexpr KernelChoice kChoices[] = {{"absorbed", supports, make}};

constexpr OpKernels kOps[] = {
    {"latent_attention_step", kChoices},
};

}  // namespace

KernelTable latent_kernels() { return kOps; }

}  // namespace lamina::cpu
