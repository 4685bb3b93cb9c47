// latent_attention_step(q, latent, k_rope, w_kv, start, mask): latent attention of new tokens over
// decode state. latent[B, C, R] and k_rope[B, C, Hr] contain every token once, for all heads; token
// t of row b is at start[b] + t and sees the slots up to there.
//
// The lowering computes keys and values of all slots. Kernels do not: with w_kv = [W_K; W_V] of a
// head, q (W_K c) = (W_K^T q) c, so queries and outputs are multiplied instead and the latents are
// read once; DeepSeek-AI 2024 (V2), section 2.1.2.
#include "ops/latent_attention.h"

namespace lamina::ops {
namespace {

namespace in = operand::latent_attention_step;

std::vector<Type> infer(const Call& c) {
  const Type y = infer_latent_attention(c);
  c.require_dtype(in::kStart, DType::i32);
  c.require_shape(in::kStart, {y.dim(0)});
  c.require_dtype(in::kMask, DType::boolean);
  c.require_shape(in::kMask, {y.dim(0), y.dim(1), c.type(in::kLatent).dim(1)});
  return {y};
}

std::vector<Tensor> lower(const LowerCall& c) {
  const ExpandedLatent kv = expand_latent(c);
  return {attention({.q = c.in(in::kQ),
                     .k = kv.k,
                     .v = kv.v,
                     .mask = c.in(in::kMask),
                     .start = c.in(in::kStart)},
                    {.scale = latent_scale(c), .soft_cap = c.f("soft_cap")})
              .y};
}

std::vector<Tensor> vjp(const VjpCall& c) {
  c.require(false, "attention over decode state has no gradient");
  return {};
}

}  // namespace

constinit const OpDef latent_attention_step_op = {
    .infer = infer,
    .lower = lower,
    .vjp = vjp,
    .decode = &kContinues,
    .cost = {.flops = latent_attention_flops},
    .split = {.rule = "bTnH, bSR, bSP, nR, bTS?, b -> bTnV"}};

}  // namespace lamina::ops
