// The [model] keys of Gemma 1, 2 and 3: names, defaults, limits and what they must satisfy
// together. Names and defaults are those of Hugging Face's configurations; published files leave
// out what is at its default.

#include "config.h"

namespace gemma {
namespace {

using namespace lamina::sdk;

// Families differ in the defaults of these.
struct Defaults {
  std::int64_t vocab_size, num_attention_heads, num_key_value_heads, max_position_embeddings;
  double rope_theta;
};

void shared_keys(Schema<Config>& key, const Defaults& defaults) {
  key("vocab_size", &Config::vocab_size,
      {.fallback = defaults.vocab_size, .min = 1, .doc = "rows of the token table"});
  key("hidden_size", &Config::hidden_size, {.required = true, .min = 1, .doc = "model width D"});
  key("num_hidden_layers", &Config::num_hidden_layers,
      {.required = true, .min = 0, .doc = "decoder layers"});
  key("num_attention_heads", &Config::num_attention_heads,
      {.fallback = defaults.num_attention_heads, .min = 1, .doc = "query heads N"});
  key("num_key_value_heads", &Config::num_key_value_heads,
      {.fallback = defaults.num_key_value_heads, .min = 1, .doc = "key/value heads K"});
  key("head_dim", &Config::head_dim, {.fallback = 256, .min = 2, .doc = "head width H"});
  key("intermediate_size", &Config::intermediate_size,
      {.required = true, .min = 1, .doc = "feed-forward width F"});
  key("max_position_embeddings", &Config::max_position_embeddings,
      {.fallback = defaults.max_position_embeddings,
       .min = 1,
       .doc = "tokens of context that the model was made for"});
  key("hidden_activation", &Config::hidden_act,
      {.fallback = "gelu_pytorch_tanh",
       .choices = {"silu", "swish", "gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "relu",
                   "sigmoid"},
       .doc = "activation of the feed-forward's gate"});
  key("rms_norm_eps", &Config::rms_norm_eps,
      {.fallback = 1e-6, .above = 0, .doc = "added to the mean square in norms"});
  key("initializer_range", &Config::initializer_range,
      {.fallback = 0.02, .above = 0, .doc = "standard deviation of fresh weights"});
  key("attention_bias", &Config::attention_bias,
      {.fallback = false, .doc = "biases in the four attention projections"});
  key("tie_word_embeddings", &Config::tie_word_embeddings,
      {.fallback = true, .doc = "the head is the token table"});
  key("use_bidirectional_attention", &Config::use_bidirectional_attention,
      {.fallback = false,
       .flags = LAMINA_KEY_HF_ONLY,
       .doc = "every token sees every other; must be false, for lamina decodes"});
  rope_keys(key, &Config::rope, {.theta = defaults.rope_theta, .group = kFull});
  // hidden_activation decides, whatever hidden_act says; attention_dropout is 0 in published files;
  // the implementation of a cache is the reader's business.
  key.ignore({"hidden_act", "attention_dropout", "cache_implementation"});
}

// Keys of the families with local and global layers.
void window_keys(Schema<Config>& key) {
  key("query_pre_attn_scalar", &Config::query_pre_attn_scalar,
      {.fallback = 256.0, .above = 0, .doc = "scores are divided by its square root"});
  key("final_logit_softcapping", &Config::final_logit_softcapping,
      {.fallback = 0.0,
       .min = 0,
       .flags = LAMINA_KEY_NULL_IS_ZERO,
       .doc = "logits x become c * tanh(x / c); 0 = not"});
  key("sliding_window", &Config::sliding_window,
      {.fallback = 4096, .min = 1, .doc = "tokens that a local layer sees, the query's included"});
  key("layer_types", &Config::layer_types,
      {.choices = {kSliding, kFull},
       .flags = LAMINA_KEY_PER_LAYER,
       .doc = "local or global, one a layer; default: by the family's pattern"});
}

std::string in_quotes(std::string_view text) { return std::string("'").append(text).append("'"); }

}  // namespace

void gemma_keys(Schema<Config>& key) {
  shared_keys(key, {.vocab_size = 256000,
                    .num_attention_heads = 16,
                    .num_key_value_heads = 16,
                    .max_position_embeddings = 8192,
                    .rope_theta = 10000.0});
}

void gemma2_keys(Schema<Config>& key) {
  shared_keys(key, {.vocab_size = 256000,
                    .num_attention_heads = 8,
                    .num_key_value_heads = 4,
                    .max_position_embeddings = 8192,
                    .rope_theta = 10000.0});
  window_keys(key);
  key("attn_logit_softcapping", &Config::attn_logit_softcapping,
      {.fallback = 50.0,
       .min = 0,
       .flags = LAMINA_KEY_NULL_IS_ZERO,
       .doc = "scores x become c * tanh(x / c) before the mask; 0 = not"});
}

void gemma3_keys(Schema<Config>& key) {
  shared_keys(key, {.vocab_size = 262208,
                    .num_attention_heads = 8,
                    .num_key_value_heads = 4,
                    .max_position_embeddings = 131072,
                    .rope_theta = 1000000.0});
  window_keys(key);
  key("sliding_window_pattern", &Config::sliding_window_pattern,
      {.min = 1,
       .aliases = {"_sliding_window_pattern"},
       .doc = "every such layer is global, if layer_types does not say; default 6"});
  key("rope_local_base_freq", &Config::rope_local_base_freq,
      {.fallback = 10000.0,
       .above = 0,
       .aliases = {"rope_parameters.sliding_attention.rope_theta"},
       .doc = "base of the rotary frequencies of local layers"});
  // Local layers are never stretched. The definition has no soft cap on scores.
  key.ignore({"rope_parameters.sliding_attention.rope_type", "attn_logit_softcapping"});
}

std::vector<std::string_view> types_of(const Config& c, std::int64_t pattern) {
  if (!c.layer_types.empty()) return c.layer_types;
  std::vector<std::string_view> out;
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i)
    out.push_back((i + 1) % pattern == 0 ? kFull : kSliding);
  return out;
}

void validate(const Config& c, const Problems& problem) {
  check_standard(c, problem);
  if (c.use_bidirectional_attention)
    problem("use_bidirectional_attention",
            "got true; a decoder's attention is causal, and only checkpoints with false are read");
  if (c.sliding_window_pattern > 0) {
    const auto n = static_cast<std::int64_t>(c.layer_types.size());
    for (std::int64_t i = 0; i < n; ++i) {
      const std::string_view type = c.layer_types[static_cast<std::size_t>(i)];
      const std::string_view other = (i + 1) % c.sliding_window_pattern == 0 ? kFull : kSliding;
      if (type == other) continue;
      problem("layer_types",
              "layer " + std::to_string(i) + " is " + in_quotes(type) +
                  ", by sliding_window_pattern = " + std::to_string(c.sliding_window_pattern) +
                  " it is " + in_quotes(other) + "; keep the one that is meant");
      return;
    }
  }
}

}  // namespace gemma
