// The [model] keys of the OLMo families. Names and defaults are those in Hugging Face's
// configurations, if they have the key.

#include "config.h"

#include <algorithm>

#include "lamina/ext/gguf.h"

namespace olmo {
namespace {

using namespace lamina::sdk;

void shared_keys(Schema<Config>& key, const RopeKeys& rope) {
  standard_keys(key, {.max_position_embeddings = 2048, .rms_norm_eps = 1e-5, .rope = rope});
  key("qk_norm", &Config::qk_norm,
      {.fallback = "whole",
       .choices = {"whole", "per_head"},
       .own = true,
       .doc = "norms of queries and keys: over all heads at once, or per head"});
  key.ignore({LAMINA_GGUF_KEY});  // GGUF files have the same rows
}

}  // namespace

void olmo2_keys(Schema<Config>& key) {
  shared_keys(key, {});
  full_attention_only(key);
}

void olmo3_keys(Schema<Config>& key) {
  shared_keys(key, {.theta = 500000, .group = kFullAttention});
  key("sliding_window", &Config::sliding_window,
      {.fallback = 4096,
       .min = 0,  // the plan sets 0 for layers without a window
       .doc = "tokens a query of a sliding layer sees, including itself"});
  key("layer_types", &Config::layer_types,
      {.choices = {kFullAttention, kSlidingAttention},
       .flags = LAMINA_KEY_PER_LAYER,
       .doc = "attention of each layer; default: every fourth layer has no window"});
  key("sliding_rope_theta", &Config::sliding_rope_theta,
      {.fallback = 500000.0,  // for any rope_theta, as in Transformers
       .above = 0,
       .aliases = {"rope_parameters.sliding_attention.rope_theta"},
       .hf_name = "rope_parameters.sliding_attention.rope_theta",
       .doc = "base of the rotary frequencies in sliding layers"});
  key("sliding_rope_type", &Config::sliding_rope_type,
      {.fallback = "default",
       .choices = {"default", "linear", "dynamic", "llama3", "yarn"},
       .aliases = {"rope_parameters.sliding_attention.rope_type"},
       .hf_name = "rope_parameters.sliding_attention.rope_type",
       .doc = "rope_scaling.rope_type of sliding layers; the other rope_scaling keys apply to both "
              "kinds"});
}

void olmo3_validate(const Config& c, const Problems& problem) {
  const auto& types = c.layer_types;
  const bool slides =
      types.empty() || std::find(types.begin(), types.end(), kSlidingAttention) != types.end();
  if (c.sliding_window == 0 && slides)
    problem("sliding_window", "got 0 with sliding_attention layers; it must be at least 1");
}

}  // namespace olmo
