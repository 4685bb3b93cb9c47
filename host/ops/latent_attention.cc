// latent_attention(q, latent, k_rope, w_kv, ...): multi-head latent attention for training and
// whole prompts: keys and values are computed for every head, followed by plain attention.
// DeepSeek-AI 2024 (V2), section 2.1. Decoding reads the latents: latent_attention_step.
#include "ops/latent_attention.h"
#include "ops/attended_pairs.h"
#include "ops/decode.h"

#include <algorithm>
#include <cmath>

LAMINA_HOST_INPUTS(latent_attention, "segments?")
LAMINA_HOST_ATTRS(latent_attention, "soft_cap:f=0")

namespace lamina::ops {

namespace {

namespace in = operand::latent_attention;
// Code common to both forms uses the positions of this one.
namespace step = operand::latent_attention_step;
static_assert(int{in::kQ} == step::kQ && int{in::kLatent} == step::kLatent &&
              int{in::kKRope} == step::kKRope && int{in::kWKv} == step::kWKv &&
              int{in::kMask} == step::kMask);

std::int64_t nope_dim(const Call& c) { return c.i("nope_dim"); }

}  // namespace

Type infer_latent_attention(const Call& c) {
  const Type& q = c.type(in::kQ);
  const Type& latent = c.type(in::kLatent);
  const Type& rope = c.type(in::kKRope);
  const Type& w = c.type(in::kWKv);
  c.require_floating(in::kQ);
  c.require_ndim(in::kQ, 4);
  c.require_ndim(in::kLatent, 3);
  c.require_ndim(in::kKRope, 3);
  c.require_ndim(in::kWKv, 2);
  for (int i : {in::kLatent, in::kKRope, in::kWKv})
    c.require(c.type(i).dtype == q.dtype, "inputs must have the dtype of q {}, got {}",
              to_string(q), to_string(c.type(i)));
  c.require(latent.dim(0) == q.dim(0) && rope.dim(0) == q.dim(0) && latent.dim(1) == rope.dim(1),
            "latent {} and k_rope {} must have the batch of q {} and the same number of tokens",
            to_string(latent), to_string(rope), to_string(q));
  c.require(nope_dim(c) > 0 && nope_dim(c) + rope.dim(2) == q.dim(3),
            "nope_dim {} and the {} rotary dims of k_rope must add up to the head width {} of q",
            nope_dim(c), rope.dim(2), q.dim(3));
  c.require(w.dim(1) == latent.dim(2), "w_kv {} does not match latents of width {}", to_string(w),
            latent.dim(2));
  c.require(q.dim(2) > 0 && w.dim(0) % q.dim(2) == 0 && w.dim(0) / q.dim(2) > nope_dim(c),
            "w_kv {} must have heads x (nope_dim + value width) rows, with {} heads and nope_dim "
            "{}",
            to_string(w), q.dim(2), nope_dim(c));
  Type y = q;
  y.shape[3] = w.dim(0) / q.dim(2) - nope_dim(c);
  return y;
}

ExpandedLatent expand_latent(const LowerCall& c) {
  const Type& q = c.type(in::kQ);
  const Type& rope = c.type(in::kKRope);
  const std::int64_t batch = rope.dim(0), keys = rope.dim(1), heads = q.dim(2);
  const std::int64_t nope = c.i("nope_dim"), width = c.type(in::kWKv).dim(0) / heads;
  Tensor kv = reshape(linear(c.in(in::kLatent), c.in(in::kWKv)), {batch, keys, heads, width});
  Tensor shared = broadcast(reshape(c.in(in::kKRope), {batch, keys, 1, rope.dim(2)}),
                            {batch, keys, heads, rope.dim(2)});
  return {concat({slice(kv, 3, 0, nope), shared}, {.dim = 3}), slice(kv, 3, nope, width - nope)};
}

double latent_attention_flops(const NodeView& n, const WorkContext& work) {
  const Type &q = n.type(in::kQ), &latent = n.type(in::kLatent);
  const auto tokens = static_cast<double>(q.dim(1)), heads = static_cast<double>(q.dim(2));
  const auto rank = static_cast<double>(latent.dim(2)), nope = static_cast<double>(n.i("nope_dim"));
  const double rotated = static_cast<double>(q.dim(3)) - nope;
  const double weights = num_elements(n.type(in::kWKv)), value = weights / rank / heads - nope;
  const bool causal = n.op().attr_index("causal") < 0 || n.i("causal") != 0;
  const double pairs = attended_pairs(
      {.causal = causal, .keys = latent.dim(1), .max_keys = work.keys_kept[in::kMask]}, work.start,
      q.dim(1));
  const double expanded = weights * (static_cast<double>(work.start) + tokens) +
                          heads * pairs * (nope + rotated + value);
  const double absorbed = weights * tokens + heads * pairs * (2 * rank + rotated);
  return 2 * static_cast<double>(q.dim(0)) * std::min(expanded, absorbed);
}

double latent_scale(const LowerCall& c) {
  return c.f("scale") != 0 ? c.f("scale") : 1 / std::sqrt(double(c.type(in::kQ).dim(3)));
}

namespace {

std::vector<Type> infer(const Call& c) {
  const Type y = infer_latent_attention(c);
  const Type& q = c.type(in::kQ);
  c.require(c.type(in::kLatent).dim(1) == q.dim(1), "{} queries require as many latents, got {}",
            q.dim(1), to_string(c.type(in::kLatent)));
  c.require_dtype(in::kSegments, DType::i32);
  c.require_shape(in::kSegments, {q.dim(0), q.dim(1)});
  c.require_dtype(in::kMask, DType::boolean);
  c.require_shape(in::kMask, {q.dim(0), q.dim(1), q.dim(1)});
  return {y};
}

std::vector<Tensor> lower(const LowerCall& c) {
  const ExpandedLatent kv = expand_latent(c);
  return {attention(
              {.q = c.in(in::kQ),
               .k = kv.k,
               .v = kv.v,
               .mask = c.in(in::kMask),
               .segments = c.in(in::kSegments),
               .key_segments = c.in(in::kSegments)},
              {.scale = latent_scale(c), .soft_cap = c.f("soft_cap"), .causal = c.i("causal") != 0})
              .y};
}

// Attention to the latents themselves: keys and values are never computed.
std::vector<Tensor> decode(DecodeCall& c) {
  for (const auto& [part, input] : {std::pair{"latent", in::kLatent}, {"k_rope", in::kKRope}}) {
    const Tensor update = c.in(input);
    c.in(input) = cast(c.write_cache(part, update, 0).cache, update.dtype());
  }
  return c.add_step(OpCode::latent_attention_step);
}

std::vector<std::int64_t> state_dims(const DecodeCall& c) {
  return {c.in(in::kLatent).dim(2), c.in(in::kKRope).dim(2)};
}

constexpr OperandDims kNumDims[] = {{in::kLatent, 3}, {in::kKRope, 3}};
constexpr HostOperand kHost[] = {{in::kSegments, HostInput::segments}};
constexpr DecodeForm kDecode{.state = StateKind::latent,
                             .step = decode,
                             .state_dims = state_dims,
                             .num_dims = kNumDims,
                             .host = kHost};

}  // namespace

constinit const OpDef latent_attention_op = {
    .infer = infer,
    .lower = lower,
    .always_lower = true,
    .decode = &kDecode,
    .cost = {.flops = latent_attention_flops},
    .split = {.rule = "bTnH, bTR, bTP, nR, bTT?, bT? -> bTnV"},
    .facts = {.attends = Attends::to_latents, .params = {{{"w_kv", ParamUse::matrix}}}}};

}  // namespace lamina::ops
