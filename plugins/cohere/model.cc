// Command R: attention and a gated feed-forward side by side, from one LayerNorm without bias.
// Cohere2 (Command R7B, Command A): three of four layers have a sliding window and rotary
// positions, the fourth has neither. Cohere et al. 2025, "Command A", section 2.
//
// Shapes: B batch, T tokens, D model width, N heads of queries or of keys, H head width.

#include "config.h"

namespace cohere {
namespace {

using namespace lamina::sdk;

LayerNormOptions norm_options(const Config& c) { return {.eps = c.layer_norm_eps, .bias = false}; }

// LayerNorm of each head, with weights for every head, rounded once.
Tensor head_norm(Scope s, const Config& c, Tensor x_BTNH, std::string_view heads) {
  Tensor weight_NH = s.param("weight", {x_BTNH.dim(2), x_BTNH.dim(3)},
                             {.axes = {heads, axis::norm}, .role = Role::norm, .init = init::ones});
  Tensor wide_BTNH = layer_norm(widen(x_BTNH), {}, {}, norm_options(c));
  return cast_like(wide_BTNH * widen(weight_NH), x_BTNH);
}

Tensor attention(Scope s, const Config& c, Tensor h_BTD, const Step& step, bool rotates) {
  SelfAttentionOptions options = c.attention_options();
  options.rope.reset();
  auto [q_BTNH, k_BTNH, v_BTNH] = project_qkv(s, h_BTD, step, options);
  if (c.use_qk_norm) {
    q_BTNH = head_norm(s / "q_norm", c, q_BTNH, axis::heads);
    k_BTNH = head_norm(s / "k_norm", c, k_BTNH, axis::kv_heads);
  }
  if (rotates) {
    q_BTNH = rope(q_BTNH, step.positions_BT, c.rotary());
    k_BTNH = rope(k_BTNH, step.positions_BT, c.rotary());
  }
  Tensor o_BTNH = step.attend(q_BTNH, k_BTNH, v_BTNH, {.window = rotates ? c.sliding_window : 0});
  return project_out(s, o_BTNH, c.hidden_size, c.attention_bias);
}

template <bool rotates>
Tensor block(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  Tensor h_BTD = layer_norm(s / "norm", x_BTD, norm_options(c));
  return x_BTD + attention(s / "attention", c, h_BTD, step, rotates) +
         gated_mlp(s / "feed_forward", h_BTD, c.mlp_options());
}

std::vector<Block<Config>> blocks() {
  return {{kRotating, "cohere", block<true>}, {kGlobal, "cohere-global", block<false>}};
}

Plan cohere2_plan(const Config& c) {
  return layers_of(types_of(c), [](std::string_view type) {
    return unit(type == kFullAttention ? kGlobal : kRotating);
  });
}

Head head(const Config& c) {
  return {.norm = norm_options(c), .tied = c.tie_word_embeddings, .logit_scale = c.logit_scale};
}

constexpr Model<Config> kCohere = {
    .family = {.name = "cohere",
               .hf_model_types = {"cohere", "command-r"},
               .hf_architectures = {"CohereForCausalLM"},
               .hf_prefixes = kTextPrefixes,
               .doc = "Command R, Aya 23 and Expanse: attention and feed-forward side by side"},
    .keys = cohere_keys,
    .derive = cohere_derive,
    .blocks = blocks,
    .head = head,
    .weights = weights,
};

constexpr Model<Config> kCohere2 = {
    .family = {.name = "cohere2",
               .hf_model_types = {"cohere2"},
               .hf_architectures = {"Cohere2ForCausalLM"},
               .hf_prefixes = kTextPrefixes,
               .doc =
                   "Command R7B and Command A: three layers with a window, one without positions"},
    .keys = cohere2_keys,
    .validate = cohere2_validate,
    .blocks = blocks,
    .plan = cohere2_plan,
    .head = head,
    .weights = weights,
};

}  // namespace
}  // namespace cohere

LAMINA_PLUGIN("org.lamina.cohere", "0.1.0", cohere::kCohere, cohere::kCohere2)
