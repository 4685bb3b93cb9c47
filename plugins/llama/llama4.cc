// Llama 4: layers that see only their chunk, with rotary positions, and every fourth one without
// positions that sees everything; mixtures of experts, in which one expert and a shared one read
// each token. Meta 2025, "The Llama 4 herd". After Hugging Face's `llama4` and MaxText's.
//
// Shapes: B batch, T tokens, D model width, N query heads, K key/value heads, H head width.

#include "llama4.h"

namespace llama {
namespace {

using namespace lamina::sdk;
using C = Llama4Config;

// ln(1 + floor((t + 1) / floor_scale)) attn_scale + 1 of each position, [B, T, 1, 1].
Tensor temperature(Scope s, const C& c, Tensor positions_BT, Tensor like) {
  Tensor period =
      constant(s, {.shape = {}, .dtype = "i32", .value = static_cast<double>(c.floor_scale)});
  Tensor periods_BT =
      cast(shift(positions_BT, 1) / period, like.dtype() == LAMINA_DTYPE_F64 ? "f64" : "f32");
  Tensor factor_BT = shift(scale(log(shift(periods_BT, 1)), c.attn_scale), 1);
  const Dims shape = positions_BT.shape();
  return reshape(cast_like(factor_BT, like), {shape[0], shape[1], 1, 1});
}

Tensor attention(Scope s, const C& c, bool global, Tensor x_BTD, const Step& step) {
  SelfAttentionOptions options = {.heads = c.num_attention_heads,
                                  .kv_heads = c.num_key_value_heads,
                                  .head_dim = c.head_dim,
                                  .qkv_bias = c.attention_bias};
  if (!global) {
    options.rope = c.rope_options();
    options.rope->interleaved = true;
    options.attend.chunk = c.attention_chunk_size;
  }
  Qkv qkv = project_qkv(s, x_BTD, step, options);
  if (!global && c.use_qk_norm) {
    qkv.q_BTNH = rms_norm(qkv.q_BTNH, Tensor{}, {.eps = c.rms_norm_eps});
    qkv.k_BTKH = rms_norm(qkv.k_BTKH, Tensor{}, {.eps = c.rms_norm_eps});
  }
  if (global && c.attn_temperature_tuning)
    qkv.q_BTNH = qkv.q_BTNH * temperature(s, c, step.positions_BT, qkv.q_BTNH);
  Tensor o_BTNH = step.attend(qkv.q_BTNH, qkv.k_BTKH, qkv.v_BTKH, options.attend);
  return project_out(s, o_BTNH, c.hidden_size, c.attention_bias);
}

// The chosen expert reads x times the sigmoid of its logit; the shared one reads x.
Tensor mixture(Scope s, const C& c, Tensor x_BTD, const Step& step) {
  const Routed routed = route(s / "router", x_BTD,
                              {.experts = c.num_experts,
                               .per_token = c.num_experts_per_tok,
                               .scores = RouterScores::sigmoid,
                               .weights = RouterWeights::scores});
  keep_router_losses(s, step, routed, c.losses());
  Tensor routed_BTD = experts(s / "experts", x_BTD, routed,
                              {.width = c.intermediate_size,
                               .glu = {.activation = c.hidden_act},
                               .weigh_input = true,
                               .capacity_factor = c.capacity_factor});
  Tensor shared_BTD =
      gated_mlp(s / "shared", x_BTD, {.width = c.intermediate_size, .activation = c.hidden_act});
  return tag(routed_BTD + shared_BTD, tags::moe_out);
}

template <bool kGlobal, bool kExperts>
Tensor block(Scope s, const C& c, Tensor x_BTD, const Step& step) {
  Tensor h_BTD = rms_norm(s / "attention_norm", x_BTD, c.rms_norm_eps);
  x_BTD = x_BTD + attention(s / "attention", c, kGlobal, h_BTD, step);
  h_BTD = rms_norm(s / "ffn_norm", x_BTD, c.rms_norm_eps);
  if (kExperts) return x_BTD + mixture(s / "moe", c, h_BTD, step);
  return x_BTD + gated_mlp(s / "feed_forward", h_BTD,
                           {.width = c.intermediate_size_mlp, .activation = c.hidden_act});
}

}  // namespace

std::vector<Block<C>> llama4_blocks() {
  return {{kChunkedDense, "chunked", block<false, false>},
          {kChunkedMoe, "chunked_moe", block<false, true>},
          {kGlobalDense, "global", block<true, false>},
          {kGlobalMoe, "global_moe", block<true, true>}};
}

Plan llama4_plan(const C& c) {
  std::vector<std::uint32_t> kinds;
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i)
    kinds.push_back(is_global(c, i) ? (has_experts(c, i) ? kGlobalMoe : kGlobalDense)
                                    : (has_experts(c, i) ? kChunkedMoe : kChunkedDense));
  return layers_of(kinds, [](std::uint32_t kind) { return unit(kind); });
}

Head llama4_head(const C& c) {
  return {.norm = RmsNormOptions{.eps = c.rms_norm_eps}, .tied = c.tie_word_embeddings};
}

double llama4_init_std(const C& c) { return standard_init_std(c); }

}  // namespace llama
