// The [model] keys of the OLMo families. Names and defaults are those in Hugging Face's
// configurations, if they have the key.

#include "config.h"

#include <algorithm>
#include <string>

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
}

constexpr std::string_view kSlidingObject = "rope_parameters.sliding_attention.",
                           kSlidingScaling = "sliding_rope_scaling.",
                           kOriginal = "original_max_position_embeddings";

constexpr struct {
  std::string_view name;
  double RopeOptions::*member;
} kScalingNumbers[] = {{"factor", &RopeOptions::factor},
                       {"low_freq_factor", &RopeOptions::low_freq_factor},
                       {"high_freq_factor", &RopeOptions::high_freq_factor},
                       {"beta_fast", &RopeOptions::beta_fast},
                       {"beta_slow", &RopeOptions::beta_slow},
                       {"attention_factor", &RopeOptions::attention_factor},
                       {"mscale", &RopeOptions::mscale},
                       {"mscale_all_dim", &RopeOptions::mscale_all_dim}};

std::string sliding_scaling(std::string_view name) {
  return std::string(kSlidingScaling) + std::string(name);
}

// Positions of layers with a window.
void sliding_rope_keys(Schema<Config>& key) {
  const auto path = [&](std::string_view name) {
    return key.keep_text(std::string(kSlidingObject) + std::string(name));
  };
  const auto option = [](auto RopeOptions::*member) {
    return nested(&Config::sliding_rope, &RopeConfig::options, member);
  };
  key("sliding_rope_theta", option(&RopeOptions::theta),
      {.above = 0,
       .aliases = {path("rope_theta")},
       .hf_name = path("rope_theta"),
       .doc = "base of the rotary frequencies in sliding layers; default 500000"});
  key("sliding_rope_type", nested(&Config::sliding_rope, &RopeConfig::type),
      {.fallback = "default",
       .choices = {"default", "linear", "dynamic", "llama3", "yarn"},
       .aliases = {path("rope_type"), path("type")},
       .hf_name = path("rope_type"),
       .doc = "rope_scaling.rope_type of sliding layers"});
  for (const auto& [name, member] : kScalingNumbers)
    key(key.keep_text(sliding_scaling(name)), option(member),
        {.above = 0,
         .aliases = {path(name)},
         .hf_name = path(name),
         .doc = "the key of rope_scaling for sliding layers; without a factor here the keys of "
                "rope_scaling apply to both kinds"});
  key(key.keep_text(sliding_scaling(kOriginal)), option(&RopeOptions::original_max_positions),
      {.min = 1,
       .aliases = {path(kOriginal)},
       .hf_name = path(kOriginal),
       .doc = "tokens of context before stretching in sliding layers"});
}

}  // namespace

void olmo2_keys(Schema<Config>& key) {
  shared_keys(key, {});
  full_attention_only(key);
  key.ignore({LAMINA_GGUF_KEY});  // GGUF files have the same rows
}

void olmo3_keys(Schema<Config>& key) {
  shared_keys(key, {.theta = 500000, .group = kFullAttention});
  key("sliding_window", &Config::sliding_window,
      {.fallback = 4096,
       .min = 0,  // the plan sets 0 for layers without a window
       .flags = LAMINA_KEY_NULL_IS_ZERO,
       .doc = "tokens a query of a sliding layer sees, including itself"});
  key("layer_types", &Config::layer_types,
      {.choices = {kFullAttention, kSlidingAttention},
       .flags = LAMINA_KEY_PER_LAYER,
       .doc = "attention of each layer; default: every fourth layer has no window"});
  sliding_rope_keys(key);
  key(LAMINA_GGUF_KEY, &Config::is_gguf,
      {.fallback = false,
       .flags = LAMINA_KEY_HF_ONLY,
       .doc = "true for weights from a GGUF file, which may have one base for all layers"});
}

// Exports and checkpoints have all keys of stretched positions, also if both kinds share them.
void olmo3_derive(const Config& c, const Derived& derived) {
  // Transformers has 500000 for any rope_theta.
  derived.set("sliding_rope_theta", c.is_gguf ? c.rope.options.theta : 500000.0);
  if (c.sliding_rope.type == "default") return;
  const bool shares = c.sliding_rope.options.factor == 0;
  const RopeOptions from = shares ? c.rope.options : RopeOptions{};
  for (const auto& [name, member] : kScalingNumbers)
    if (from.*member != 0) derived.set(sliding_scaling(name), from.*member);
  derived.set(sliding_scaling(kOriginal),
              shares ? from.original_max_positions : c.max_position_embeddings);
}

void olmo3_validate(const Config& c, const Problems& problem) {
  const auto& types = c.layer_types;
  const bool slides =
      types.empty() || std::find(types.begin(), types.end(), kSlidingAttention) != types.end();
  if (c.sliding_window == 0 && slides)
    problem("sliding_window", "got 0 with sliding_attention layers; it must be at least 1");
}

}  // namespace olmo
