// Qwen 3 with a mixture of experts as feed-forward; layers without experts are those in the dense
// model. Yang et al. 2025, "Qwen3 Technical Report", 2. The custom block is MaxText's
// `qwen3_custom_moe`: attention's output and the experts' input are narrower than the model.
//
// Shapes: B batch, T tokens, D model width, A width of the narrow space.

#include "moe.h"

#include <algorithm>

namespace qwen {
namespace {

using namespace lamina::sdk;
using C = SparseConfig;

SelfAttentionOptions attention_options(const C& c) {
  SelfAttentionOptions out = c.attention_options();
  out.qk_norm = QkNorm::per_head;
  out.attend.window = c.use_sliding_window ? c.sliding_window : 0;
  return out;
}

Tensor attended(Scope s, const C& c, Tensor x_BTD, const Step& step) {
  Tensor h_BTD = rms_norm(s / "attention_norm", x_BTD, c.rms_norm_eps);
  return x_BTD + self_attention(s / "attention", h_BTD, step, attention_options(c));
}

Tensor dense_block(Scope s, const C& c, Tensor x_BTD, const Step& step) {
  x_BTD = attended(s, c, x_BTD, step);
  Tensor h_BTD = rms_norm(s / "ffn_norm", x_BTD, c.rms_norm_eps);
  return x_BTD + gated_mlp(s / "feed_forward", h_BTD, c.mlp_options());
}

Tensor sparse_block(Scope s, const C& c, Tensor x_BTD, const Step& step) {
  x_BTD = attended(s, c, x_BTD, step);
  Tensor h_BTD = rms_norm(s / "ffn_norm", x_BTD, c.rms_norm_eps);
  return x_BTD + mixture(s / "moe", c, h_BTD, step);
}

// One residual per layer: nothing is added after attention. The norm after it is among the
// parameters of the original and is not used.
Tensor custom_block(Scope s, const C& c, Tensor x_BTD, const Step& step) {
  // MaxText has this norm and does not use it.
  (s / "ffn_norm")
      .param("weight", {c.hidden_size},
             {.axes = {axis::norm},
              .role = Role::norm,
              .init = init::ones,
              .flags = LAMINA_PARAM_BUFFER});
  SelfAttentionOptions options = attention_options(c);
  if (!c.use_qk_norm) options.qk_norm = QkNorm::none;
  Tensor h_BTD = rms_norm(s / "attention_norm", x_BTD, c.rms_norm_eps);
  const Qkv qkv = project_qkv(s / "attention", h_BTD, step, options);
  Tensor o_BTNH = step.attend(qkv.q_BTNH, qkv.k_BTKH, qkv.v_BTKH, options.attend);
  Tensor a_BTA = project_out(s / "attention", o_BTNH, c.attention_output_dim, c.attention_bias);
  Tensor m_BTA = mixture(s / "moe", c, rms_norm(s / "latent_norm", a_BTA, c.rms_norm_eps), step);
  if (c.attention_output_dim == c.hidden_size) return x_BTD + m_BTA;
  return x_BTD + linear(s / "up_projection", m_BTA, c.hidden_size, {.in = axis::none});
}

}  // namespace

// Weights that are divided by their sum equal the softmax of the best K logits.
Tensor mixture(Scope s, const C& c, Tensor x, const Step& step) {
  MixtureOptions options = c.mixture_options(c.moe_intermediate_size, c.hidden_act);
  if (!c.norm_topk_prob) {
    options.router.scores = RouterScores::softmax;
    options.router.weights = RouterWeights::scores;
  }
  return lamina::sdk::mixture(s, x, step, options);
}

std::vector<Block<C>> moe_blocks() {
  return {{kDense, "dense", dense_block}, {kSparse, "moe", sparse_block}};
}
std::vector<Block<C>> custom_moe_blocks() { return {{kCustom, "custom_moe", custom_block}}; }

bool has_experts(const C& c, std::int64_t i) {
  const auto& without = c.mlp_only_layers;
  return c.num_experts > 0 && c.decoder_sparse_step > 0 && (i + 1) % c.decoder_sparse_step == 0 &&
         std::find(without.begin(), without.end(), i) == without.end();
}

Plan moe_plan(const C& c) {
  return each_layer(c.num_hidden_layers,
                    [&](std::int64_t i) { return has_experts(c, i) ? kSparse : kDense; });
}

}  // namespace qwen
