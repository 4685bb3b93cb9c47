// OLMo 2 and 3: a decoder-only transformer with norms after its sub-layers, before the addition,
// and norms of queries and keys over all heads at once. OLMo 3 has three layers with a sliding
// window for each layer without one, and stretches the positions of the latter only. OLMo et al.
// 2025, "2 OLMo 2 Furious", section 2; Team OLMo 2025, "Olmo 3".
//
// Shapes: B batch, T tokens, D model width.

#include "config.h"

namespace olmo {
namespace {

using namespace lamina::sdk;

RopeOptions rope_options(const Config& c) {
  if (c.sliding_window == 0) return c.rope_options();
  if (c.sliding_rope.type == "default") return {.theta = c.sliding_rope.options.theta};
  RopeOptions rope =
      lamina::sdk::rope_options(c.sliding_rope, c.head_dim, c.max_position_embeddings);
  rope.truncate = c.rope.options.truncate;
  return rope;
}

Tensor attention(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  SelfAttentionOptions options = c.attention_options();
  options.qk_norm = c.qk_norm == "whole" ? QkNorm::whole : QkNorm::per_head;
  options.rope = rope_options(c);
  options.attend.window = c.sliding_window;
  return self_attention(s, x_BTD, step, options);
}

Tensor block(Scope s, const Config& c, Tensor x_BTD, const Step& step) {
  Tensor h_BTD = attention(s / "attention", c, x_BTD, step);
  x_BTD = x_BTD + rms_norm(s / "attention_norm", h_BTD, c.rms_norm_eps);
  h_BTD = gated_mlp(s / "feed_forward", x_BTD, c.mlp_options());
  return x_BTD + rms_norm(s / "ffn_norm", h_BTD, c.rms_norm_eps);
}

std::vector<Block<Config>> blocks() { return {{kBlock, "olmo", block}}; }

Plan olmo3_plan(const Config& c) {
  const Unit sliding = unit(kBlock), full = unit(kBlock, 1, {{"sliding_window", 0}});
  if (c.layer_types.empty())
    return repeat(sliding + sliding + sliding + full).over(c.num_hidden_layers).remainder_prefix();
  return layers_of(c.layer_types,
                   [&](std::string_view type) { return type == kFullAttention ? full : sliding; });
}

constexpr Model<Config> kOlmo2 = {
    .family = {.name = "olmo2",
               .hf_model_types = {"olmo2"},
               .hf_architectures = {"Olmo2ForCausalLM"},
               .hf_prefixes = kTextPrefixes,
               .doc = "OLMo 2: norms after the sub-layers, and of queries and keys"},
    .keys = olmo2_keys,
    .blocks = blocks,
    .weights = weights,
};

constexpr Model<Config> kOlmo3 = {
    .family = {.name = "olmo3",
               .hf_model_types = {"olmo3", "olmo2.attention.sliding_window"},
               .hf_architectures = {"Olmo3ForCausalLM"},
               .hf_prefixes = kTextPrefixes,
               .doc = "OLMo 3: the olmo2 block, three layers with a window and one without"},
    .keys = olmo3_keys,
    .derive = olmo3_derive,
    .validate = olmo3_validate,
    .blocks = blocks,
    .plan = olmo3_plan,
    .weights = weights,
};

}  // namespace
}  // namespace olmo

LAMINA_PLUGIN("org.lamina.olmo", "0.1.0", olmo::kOlmo2, olmo::kOlmo3)
