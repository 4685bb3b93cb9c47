// The config keys of nearly every family, under the names of Hugging Face's config.json, and the
// constraints between them. A family's Config derives from StandardConfig, and its keys() calls
// standard_keys(), or one of its parts, with the family's defaults.
//
//   struct Config : StandardConfig { std::int64_t sliding_window; };
//   void keys(Schema<Config>& key) {
//     standard_keys(key, {.max_position_embeddings = 32768, .rope = {.theta = 1e6}});
//   }
//
// The defaults of a Model are derived from these keys; see standard_model.h.
#pragma once

#include "lamina/sdk/rope_keys.h"
#include "lamina/sdk/transformer.h"

#pragma GCC visibility push(hidden)
namespace lamina::sdk {

struct StandardConfig {
  std::int64_t vocab_size;   // V
  std::int64_t hidden_size;  // D
  std::int64_t num_hidden_layers;
  std::int64_t intermediate_size;        // F
  std::int64_t max_position_embeddings;  // tokens
  std::string_view hidden_act;
  double rms_norm_eps;
  double initializer_range;
  bool tie_word_embeddings;

  std::int64_t num_attention_heads;  // N
  std::int64_t num_key_value_heads;  // K; 0 = N, in a family that drops the key
  std::int64_t head_dim;             // H
  bool attention_bias;

  RopeConfig rope;

  RopeOptions rope_options() const {
    return sdk::rope_options(rope, head_dim, max_position_embeddings);
  }
  // Causal grouped-query attention with rotary positions; eps is set for norms of queries and keys.
  SelfAttentionOptions attention_options() const {
    return {.heads = num_attention_heads,
            .kv_heads = num_key_value_heads == 0 ? num_attention_heads : num_key_value_heads,
            .head_dim = head_dim,
            .qkv_bias = attention_bias,
            .out_bias = attention_bias,
            .norm = {.eps = rms_norm_eps},
            .rope = rope_options()};
  }
  GatedMlpOptions mlp_options() const {
    return {.width = intermediate_size, .activation = hidden_act};
  }
};

// Values of layer_types in config.json.
inline constexpr std::string_view kFullAttention = "full_attention";
inline constexpr std::string_view kSlidingAttention = "sliding_attention";

// The names and defaults in which families differ.
struct StandardDefaults {
  std::optional<std::int64_t> vocab_size = {};  // empty = required
  // Files lack num_hidden_layers; derive() sets it, eg: from a list with one element per layer.
  bool layers_are_derived = false;
  std::int64_t max_position_embeddings = 2048;
  // Or "hidden_activation"; then hidden_act of the same files has no effect.
  std::string_view activation_key = "hidden_act";
  std::string_view hidden_act = "silu";
  double rms_norm_eps = 1e-6;
  bool tie_word_embeddings = false;
  std::optional<std::int64_t> intermediate_size = {};    // empty = required; 0 = no such key
  std::optional<std::int64_t> num_attention_heads = {};  // empty = required
  // Empty = num_attention_heads, which a null in config.json means in any case.
  std::optional<std::int64_t> num_key_value_heads = {};
  std::optional<std::int64_t> head_dim = {};  // empty = hidden_size / num_attention_heads
  bool attention_bias = false;
  RopeKeys rope = {};
};

// Sizes, norm, activation, head.
template <class Config>
void size_keys(Schema<Config>& key, const StandardDefaults& defaults = {}) {
  key("vocab_size", &Config::vocab_size,
      {.required = !defaults.vocab_size,
       .fallback = defaults.vocab_size,
       .min = 1,
       .doc = "rows of the token table"});
  key("hidden_size", &Config::hidden_size, {.required = true, .min = 1, .doc = "model width D"});
  key("num_hidden_layers", &Config::num_hidden_layers,
      {.required = !defaults.layers_are_derived, .min = 1, .doc = "decoder layers"});
  if (defaults.intermediate_size != 0)
    key("intermediate_size", &Config::intermediate_size,
        {.required = !defaults.intermediate_size,
         .fallback = defaults.intermediate_size,
         .min = 1,
         .doc = "feed-forward width F"});
  key("max_position_embeddings", &Config::max_position_embeddings,
      {.fallback = defaults.max_position_embeddings,
       .min = 1,
       .doc = "tokens of context that the model was made for"});
  const bool renamed = defaults.activation_key != "hidden_act";
  key(defaults.activation_key, &Config::hidden_act,
      {.fallback = defaults.hidden_act,
       .choices = {"silu", "swish", "gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "relu",
                   "relu2", "sigmoid"},
       .doc = "activation of the feed-forward's gate"});
  key("rms_norm_eps", &Config::rms_norm_eps,
      {.fallback = defaults.rms_norm_eps, .above = 0, .doc = "added to the mean square in norms"});
  key("initializer_range", &Config::initializer_range,
      {.fallback = 0.02, .above = 0, .doc = "standard deviation of fresh weights"});
  key("tie_word_embeddings", &Config::tie_word_embeddings,
      {.fallback = defaults.tie_word_embeddings, .doc = "the head is the token table"});
  if (renamed) key.ignore({"hidden_act"});
}

// Heads of grouped-query attention.
template <class Config>
void head_keys(Schema<Config>& key, const StandardDefaults& defaults = {}) {
  key("num_attention_heads", &Config::num_attention_heads,
      {.required = !defaults.num_attention_heads,
       .fallback = defaults.num_attention_heads,
       .min = 1,
       .doc = "query heads N"});
  key("num_key_value_heads", &Config::num_key_value_heads,
      {.fallback = defaults.num_key_value_heads,
       .same_as = "num_attention_heads",
       .min = 1,
       .doc = "key/value heads K"});
  key("head_dim", &Config::head_dim,
      {.fallback = defaults.head_dim,
       .min = 1,
       .doc = "head width H; default hidden_size / num_attention_heads"});
}

// All keys of StandardConfig, and the config.json keys without effect here.
template <class Config>
void standard_keys(Schema<Config>& key, const StandardDefaults& defaults = {}) {
  size_keys(key, defaults);
  head_keys(key, defaults);
  key("attention_bias", &Config::attention_bias,
      {.fallback = defaults.attention_bias, .doc = "biases in the attention projections"});
  rope_keys(key, &Config::rope, defaults.rope);
  // Dropout changes training only, and the host warns of it; pretraining_tp only splits products.
  key.ignore({"attention_dropout", "pretraining_tp"});
}

// For families in which every layer attends to all tokens: layer_types may only say so.
template <class Config>
void full_attention_only(Schema<Config>& key) {
  key.only("layer_types", std::vector<std::string_view>{kFullAttention},
           "every layer of this family attends to all tokens");
}

// For derive(): sets head_dim if the heads divide the width. A default of every Model.
inline void derive_head_dim(const StandardConfig& c, const Derived& derived) {
  if (c.num_attention_heads > 0 && c.hidden_size % c.num_attention_heads == 0)
    derived.set(derived.names()("head_dim"), c.hidden_size / c.num_attention_heads);
}

// For validate(): checks head_dim and the heads that share keys and values.
inline void check_heads(const StandardConfig& c, const Problems& problem) {
  const KeyNames& name = problem.names();
  if (c.head_dim == 0)
    problem(name("head_dim"), "expected a value, because ", name("num_attention_heads"), " = ",
            c.num_attention_heads, " does not divide hidden_size = ", c.hidden_size,
            "; change one of them or give ", name("head_dim"));
  if (c.num_key_value_heads < 1 || c.num_attention_heads % c.num_key_value_heads != 0)
    problem(name("num_key_value_heads"), "got ", c.num_key_value_heads, "; it must divide ",
            name("num_attention_heads"), " = ", c.num_attention_heads);
}

// For validate(): checks all keys of standard_keys(). A default of every Model.
inline void check_standard(const StandardConfig& c, const Problems& problem) {
  const KeyNames& name = problem.names();
  check_heads(c, problem);
  if (c.head_dim % 2 != 0)
    problem(name("head_dim"), "got ", c.head_dim, " with hidden_size = ", c.hidden_size, " and ",
            name("num_attention_heads"), " = ", c.num_attention_heads,
            "; rotary positions need an even ", name("head_dim"));
  else if (c.head_dim != 0)
    check_rope(c.rope, c.head_dim, problem);
}

// For validate(): checks layer_types of a family in which every layer has the window, or none.
inline void check_uniform_layers(const std::vector<std::string_view>& layer_types, bool has_window,
                                 const Problems& problem) {
  const std::string_view right = has_window ? kSlidingAttention : kFullAttention;
  for (std::size_t i = 0; i < layer_types.size(); ++i)
    if (layer_types[i] != right) {
      problem(problem.names()("layer_types"), "got ", layer_types[i], " for layer ", i,
              "; all layers of this model ", has_window ? "have a window" : "attend to all tokens",
              ", so it must be ", right);
      return;
    }
}

}  // namespace lamina::sdk
#pragma GCC visibility pop
