// Envy, MaxText's `envy-switch` models: the Llama block with the feed-forward of every second layer
// replaced by one of many experts. After Fedus et al. 2021, "Switch Transformers"; unlike there, a
// single expert has weight 1, so the router learns from its balance loss only.
//
// Shapes: B batch, T tokens, D model width.

#include "envy.h"

#include <cmath>

namespace llama {
namespace {

using namespace lamina::sdk;
using C = EnvyConfig;

constexpr std::uint32_t kDense = 1, kSparse = 2;

template <bool kExperts>
Tensor block(Scope s, const C& c, Tensor x_BTD, const Step& step) {
  Tensor h_BTD = rms_norm(s / "attention_norm", x_BTD, c.rms_norm_eps);
  SelfAttentionOptions options = c.attention_options();
  if (c.use_qk_norm) options.qk_norm = QkNorm::per_head;
  x_BTD = x_BTD + self_attention(s / "attention", h_BTD, step, options);
  h_BTD = rms_norm(s / "ffn_norm", x_BTD, c.rms_norm_eps);
  h_BTD = kExperts ? mixture(s / "moe", h_BTD, step,
                             c.mixture_options(c.moe_intermediate_size, c.hidden_act))
                   : gated_mlp(s / "feed_forward", h_BTD, c.mlp_options());
  if (c.use_post_ffw_norm) h_BTD = rms_norm(s / "post_ffn_norm", h_BTD, c.rms_norm_eps);
  return x_BTD + h_BTD;
}

std::vector<Weight> layer_weights(std::uint32_t block) {
  return weight_rows(
      {norm_weights(block),
       attention_weights(block),
       {block, "post_ffn_norm.weight", "model.layers.{L}.post_feedforward_layernorm.weight"}});
}

}  // namespace

void envy_keys(Schema<C>& key) {
  standard_keys(key, {.max_position_embeddings = 8192,
                      .rms_norm_eps = 1e-5,
                      .tie_word_embeddings = true,
                      .head_dim = 128,
                      .rope = {.theta = 500000}});
  moe_keys(key, {.experts = 128, .per_token = 1});
  key("moe_intermediate_size", &C::moe_intermediate_size,
      {.same_as = "intermediate_size", .min = 1, .doc = "width F of an expert"});
  key("interleave_moe_layer_step", &C::interleave_moe_layer_step,
      {.fallback = 2, .min = 1, .doc = "one in this many layers has experts"});
  key("use_qk_norm", &C::use_qk_norm,
      {.fallback = false, .doc = "norms of queries and keys per head"});
  key("use_post_ffw_norm", &C::use_post_ffw_norm,
      {.fallback = false, .doc = "a second norm, after the feed-forward"});
  key("normalize_embedding_logits", &C::normalize_embedding_logits,
      {.fallback = true, .doc = "divide logits by sqrt(hidden_size) if the head is tied"});
}

void validate_envy(const C& c, const Problems& problem) { check_moe(c, problem); }

std::vector<Block<C>> envy_blocks() {
  return {{kDense, "dense", block<false>}, {kSparse, "moe", block<true>}};
}

Plan envy_plan(const C& c) {
  return each_layer(c.num_hidden_layers, [&](std::int64_t i) {
    return (i + 1) % c.interleave_moe_layer_step == 0 ? kSparse : kDense;
  });
}

Head envy_head(const C& c) {
  const bool normalized = c.tie_word_embeddings && c.normalize_embedding_logits;
  Head out = standard_head(c);
  if (normalized) out.logit_scale = 1 / std::sqrt(static_cast<double>(c.hidden_size));
  return out;
}

// Names in the style of other families: no such checkpoints are published.
std::vector<Weight> envy_weights() {
  return outer_weights() + layer_weights(kDense) + mlp_weights(kDense) + layer_weights(kSparse) +
         mixture_weights(kSparse);
}

}  // namespace llama
