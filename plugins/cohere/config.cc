// The [model] keys of the Cohere families. Names and defaults are those in Hugging Face's
// configurations.

#include "config.h"

#include <algorithm>

#include "lamina/ext/gguf.h"

namespace cohere {
namespace {

using namespace lamina::sdk;

void shared_keys(Schema<Config>& key, double theta) {
  standard_keys(
      key,
      {.max_position_embeddings = 8192, .tie_word_embeddings = true, .rope = {.theta = theta}});
  key.drop("rms_norm_eps");
  key.factor("layer_norm_eps", &Config::layer_norm_eps, 1e-5, "added to the variance in norms");
  key.alias("layer_norm_eps", "layer_norm_epsilon");
  key.factor("logit_scale", &Config::logit_scale, 0.0625, "factor of the logits");
  key.alias("logit_scale", "cohere2.logit_scale");
  key.alias("logit_scale", "command-r.logit_scale");
  key.only("use_gated_activation", true, "feed-forwards are gated");
  key.only("use_parallel_block", true, "attention and feed-forward have one input");
  // model_max_length is for converters to GGUF.
  key.ignore({"model_max_length", "use_embedding_sharing", "use_parallel_embedding"});
}

}  // namespace

void cohere_keys(Schema<Config>& key) {
  shared_keys(key, 500000);
  key("use_qk_norm", &Config::use_qk_norm,
      {.doc = "LayerNorm of queries and keys, with weights for each head; default false"});
  key(LAMINA_GGUF_KEY, &Config::is_gguf,
      {.fallback = false,
       .flags = LAMINA_KEY_HF_ONLY,
       .doc = "true for a GGUF file, which lacks use_qk_norm"});
  full_attention_only(key);
}

// llama.cpp distinguishes Command R+ by its number of layers.
void cohere_derive(const Config& c, const Derived& derived) {
  derived.set("use_qk_norm", c.is_gguf && c.num_hidden_layers >= 64);
}

void cohere2_keys(Schema<Config>& key) {
  shared_keys(key, 10000);
  key("sliding_window", &Config::sliding_window,
      {.fallback = 4096,
       .min = 0,
       .aliases = {"cohere2.attention.sliding_window"},
       .flags = LAMINA_KEY_NULL_IS_ZERO,
       .doc = "tokens that a query of a sliding layer sees, including itself"});
  key.size("sliding_window_pattern", &Config::sliding_window_pattern, 4,
           "one layer in this many attends to all tokens, if layer_types is not given");
  key.alias("sliding_window_pattern", "_sliding_window_pattern");
  key("layer_types", &Config::layer_types,
      {.choices = {kFullAttention, kSlidingAttention},
       .flags = LAMINA_KEY_PER_LAYER,
       .doc = "attention of each layer; default: by sliding_window_pattern"});
  // GGUF files have the same rows; transformers does not read layer_switch.
  key.ignore({LAMINA_GGUF_KEY, "layer_switch"});
  key.only("use_qk_norm", false, "queries and keys have no norms");
  key.only("position_embedding_type", std::string_view("rope_gptj"),
           "rotary positions rotate neighbouring dims");
  key.only("rotary_pct", 1.0, "rotary positions rotate whole heads");
  key.only("order_of_interleaved_layers", std::string_view("local_attn_first"),
           "the last layer of each group attends to all tokens");
}

std::vector<std::string_view> types_of(const Config& c) {
  if (!c.layer_types.empty()) return c.layer_types;
  return alternating_kinds(c.num_hidden_layers, c.sliding_window_pattern, kFullAttention,
                           kSlidingAttention);
}

void cohere2_validate(const Config& c, const Problems& problem) {
  const std::vector<std::string_view> types = types_of(c);
  if (c.sliding_window == 0 && std::ranges::find(types, kSlidingAttention) != types.end())
    problem("sliding_window", "got 0 with sliding_attention layers; it must be at least 1");
}

}  // namespace cohere
