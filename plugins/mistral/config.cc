// The [model] keys of the Mistral families: names, defaults, limits and constraints. Names and
// defaults are those in Hugging Face's configurations.

#include "config.h"

#include <algorithm>

#include "lamina/ext/gguf.h"

namespace mistral {
namespace {

using namespace lamina::sdk;

// The keys of both families, which have no biases.
void common_keys(Schema<Config>& key, const StandardDefaults& defaults, std::int64_t window) {
  standard_keys(key, defaults);
  key.drop("attention_bias");
  key("sliding_window", &Config::sliding_window,
      {.fallback = window,
       .min = 0,
       .flags = LAMINA_KEY_NULL_IS_ZERO,
       .doc = "tokens a query sees, including itself; 0 = all"});
}

}  // namespace

void mistral_keys(Schema<Config>& key) {
  common_keys(key, {.max_position_embeddings = 4096 * 32, .num_key_value_heads = 8}, 4096);
  key("layer_types", &Config::layer_types,
      {.choices = {kFullAttention, kSlidingAttention},
       .flags = LAMINA_KEY_PER_LAYER,
       .doc = "attention of each layer; default: all have the window"});
}

void validate_mistral(const Config& c, const Problems& problem) {
  if (c.sliding_window == 0 && std::find(c.layer_types.begin(), c.layer_types.end(),
                                         kSlidingAttention) != c.layer_types.end())
    problem("sliding_window", "got 0 with sliding_attention layers; it must be at least 1");
}

void mixtral_keys(Schema<Config>& key) {
  common_keys(key,
              {.max_position_embeddings = 4096 * 32,
               .rms_norm_eps = 1e-5,
               .num_key_value_heads = 8,
               .rope = {.theta = 1e6}},
              0);
  key("rope_interleave", [](Config & c) -> auto& { return c.rope.options.interleaved; },
      {.fallback = false,
       .aliases = {LAMINA_GGUF_KEY},
       .own = true,
       .doc = "RoPE rotates neighbouring dims, as in GGUF files, not the two halves of a head"});
  moe_keys(key, {.experts_key = "num_local_experts",
                 .experts_aliases = {"num_experts"},
                 .experts = 8,
                 .per_token = 2});
  key("layer_types", &Config::layer_types,
      {.choices = {kFullAttention, kSlidingAttention},
       .flags = LAMINA_KEY_HF_ONLY | LAMINA_KEY_PER_LAYER,
       .doc = "attention of each layer; must match sliding_window"});
  key.ignore({"router_jitter_noise"});  // for training; the host warns of it
}

void validate_mixtral(const Config& c, const Problems& problem) {
  check_moe(c, problem, "num_local_experts");
  check_uniform_layers(c.layer_types, c.sliding_window > 0, problem);
}

}  // namespace mistral
