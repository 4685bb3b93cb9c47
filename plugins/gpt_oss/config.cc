// The [model] keys of gpt-oss. Names and defaults are those in Hugging Face's configuration.

#include "config.h"

#include <algorithm>

#include "lamina/ext/gguf.h"

namespace gpt_oss {

using namespace lamina::sdk;

void keys(Schema<Config>& key) {
  standard_keys(key, {.max_position_embeddings = 131072,
                      .rms_norm_eps = 1e-5,
                      .intermediate_size = 2880,
                      .num_key_value_heads = 8,
                      .head_dim = 64,
                      .attention_bias = true,
                      .rope = {.theta = 150000, .scaling_is_derived = true}});
  key("sliding_window", &Config::sliding_window,
      {.fallback = 128,
       .min = 0,
       .aliases = {"gpt-oss.attention.sliding_window"},
       .flags = LAMINA_KEY_NULL_IS_ZERO,
       .doc = "tokens a query of windowed layers sees, including itself"});
  key("layer_types", &Config::layer_types,
      {.choices = {kFullAttention, kSlidingAttention},
       .flags = LAMINA_KEY_PER_LAYER,
       .doc = "attention of each layer; default: alternating windowed and full"});
  key("swiglu_limit", &Config::swiglu_limit,
      {.fallback = 7.0,
       .min = 0,
       .doc = "clamps the gate from above and the up projection from both sides; 0 = off"});
  key("swiglu_alpha", &Config::swiglu_alpha,
      {.fallback = 1.702, .doc = "alpha of the activation gate * sigmoid(alpha * gate)"});
  moe_keys(key, {.experts_key = "num_local_experts",
                 .experts_aliases = {"num_experts"},
                 .experts = 128,
                 .per_token = 4,
                 .per_token_aliases = {"experts_per_token"}});
  key(LAMINA_GGUF_KEY, &Config::is_gguf,
      {.fallback = false,
       .flags = LAMINA_KEY_HF_ONLY,
       .doc = "true for weights from a GGUF file, which stretches positions only by its keys"});
  // The original context, which rope_scaling also has; intermediate_size in GGUF files.
  key.ignore({"initial_context_length", "moe_intermediate_size"});
}

// Without rope_scaling positions are stretched as in the published models, except in GGUF files,
// which have keys for it. Other kinds than yarn have the usual defaults.
void derive(const Config& c, const Derived& derived) {
  const bool may_be_yarn =
      !c.is_gguf && (c.rope.type == RopeConfig{}.type || c.rope.type == "yarn");
  const bool published = may_be_yarn && c.rope.options.factor == RopeOptions{}.factor;
  derived.set("rope_scaling.rope_type", published ? "yarn" : "default");
  derived.set("rope_scaling.factor", may_be_yarn ? 32.0 : RopeOptions{}.factor);
  derived.set("rope_scaling.original_max_position_embeddings",
              published ? std::int64_t{4096} : c.max_position_embeddings);
  derived.set("rope_scaling.truncate", !published && !c.is_gguf);
}

void validate(const Config& c, const Problems& problem) {
  check_moe(c, problem, "num_local_experts");
  const std::vector<std::string_view> types = types_of(c);
  if (c.sliding_window == 0 &&
      std::find(types.begin(), types.end(), kSlidingAttention) != types.end())
    problem("sliding_window", "got 0 with sliding_attention layers; it must be at least 1");
}

std::vector<std::string_view> types_of(const Config& c) {
  if (!c.layer_types.empty()) return c.layer_types;
  return alternating_kinds(c.num_hidden_layers, 2, kFullAttention, kSlidingAttention);
}

}  // namespace gpt_oss
