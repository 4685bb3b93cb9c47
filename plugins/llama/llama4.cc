// Llama 4: layers with rotary positions that see only their chunk, and every fourth layer without
// positions that attends to all tokens; mixtures of experts, in which one routed and one shared
// expert read each token. Meta 2025, "The Llama 4 herd". After Hugging Face's `llama4` and
// MaxText's.
//
// Shapes: B batch, T tokens, D model width, N query heads, K key/value heads, H head width.

#include "llama4.h"

namespace llama {
namespace {

using namespace lamina::sdk;
using C = Llama4Config;

// Multiplies the queries by ln(1 + floor((t + 1) / floor_scale)) attn_scale + 1, in f32.
Tensor temper(Scope s, const C& c, Tensor q_BTNH, Tensor positions_BT) {
  Tensor wide_BTNH = widen(q_BTNH);
  Tensor period =
      constant(s, {.shape = {}, .dtype = "i32", .value = static_cast<double>(c.floor_scale)});
  Tensor periods_BT = cast_like(shift(positions_BT, 1) / period, wide_BTNH);
  Tensor factor_BT = shift(scale(log(shift(periods_BT, 1)), c.attn_scale), 1);
  const Dims shape = positions_BT.shape();
  return cast_like(wide_BTNH * reshape(factor_BT, {shape[0], shape[1], 1, 1}), q_BTNH);
}

Tensor attention(Scope s, const C& c, bool global, Tensor x_BTD, const Step& step) {
  SelfAttentionOptions options = c.attention_options();
  options.rope->interleaved = true;
  options.attend.chunk = global ? 0 : c.attention_chunk_size;
  if (global) options.rope.reset();
  Qkv qkv = project_qkv(s, x_BTD, step, options);
  if (!global && c.use_qk_norm) {
    qkv.q_BTNH = rms_norm(qkv.q_BTNH, Tensor{}, {.eps = c.rms_norm_eps});
    qkv.k_BTKH = rms_norm(qkv.k_BTKH, Tensor{}, {.eps = c.rms_norm_eps});
  }
  if (global && c.attn_temperature_tuning) qkv.q_BTNH = temper(s, c, qkv.q_BTNH, step.positions_BT);
  Tensor o_BTNH = step.attend(qkv.q_BTNH, qkv.k_BTKH, qkv.v_BTKH, options.attend);
  return project_out(s, o_BTNH, c.hidden_size, options.out_bias);
}

// The chosen expert reads x times the sigmoid of its logit; the shared one reads x.
Tensor mixture(Scope s, const C& c, Tensor x_BTD, const Step& step) {
  MixtureOptions options = c.mixture_options(c.intermediate_size, c.hidden_act);
  options.router.scores = RouterScores::sigmoid;
  options.router.weights = RouterWeights::scores;
  options.experts.weigh_input = true;
  Tensor shared_BTD = gated_mlp(s / "shared", x_BTD, c.mlp_options());
  return tag(mixture(s, x_BTD, step, options) + shared_BTD, tags::moe_out);
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
  return each_layer(c.num_hidden_layers, [&](std::int64_t i) {
    if (is_global(c, i)) return has_experts(c, i) ? kGlobalMoe : kGlobalDense;
    return has_experts(c, i) ? kChunkedMoe : kChunkedDense;
  });
}

}  // namespace llama
