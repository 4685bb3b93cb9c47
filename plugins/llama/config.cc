// The [model] keys of the Llama families: names, defaults, limits and what they must satisfy
// together. Names and defaults are those of Hugging Face's configurations.

#include "config.h"

namespace llama {
namespace {

using namespace lamina::sdk;

// Families differ in the defaults of these.
struct Defaults {
  std::int64_t max_position_embeddings;
  std::int64_t sliding_window;
  Key<std::int64_t> num_key_value_heads;
};

void rope_keys(Schema<Config>& key) {
  key("rope_theta", [](Config & c) -> auto& { return c.rope.theta; },
      {.fallback = 10000.0,
       .above = 0,
       .aliases = {"rope_parameters.rope_theta"},
       .doc = "base of the rotary frequencies"});
  key("rope_interleave", [](Config & c) -> auto& { return c.rope.interleaved; },
      {.fallback = false,
       .doc = "rotate neighbouring elements, as in Meta's files, not the halves of a head"});
  key("rope_scaling.rope_type", &Config::rope_type,
      {.fallback = "default",
       .choices = {"default", "linear", "dynamic", "llama3", "yarn"},
       .aliases = {"rope_scaling.type", "rope_parameters.rope_type", "rope_parameters.type"},
       .doc = "how rotary frequencies are stretched for longer contexts"});
  key("rope_scaling.factor", [](Config & c) -> auto& { return c.rope.factor; },
      {.fallback = 1.0,
       .above = 0,
       .aliases = {"rope_parameters.factor"},
       .doc = "how many times longer the context becomes"});
  key("rope_scaling.original_max_position_embeddings",
      [](Config & c) -> auto& { return c.rope.original_max_positions; },
      {.same_as = "max_position_embeddings",
       .min = 1,
       .aliases = {"rope_parameters.original_max_position_embeddings",
                   "original_max_position_embeddings"},
       .doc = "tokens of context before stretching"});
  key("rope_scaling.low_freq_factor", [](Config & c) -> auto& { return c.rope.low_freq_factor; },
      {.fallback = 1.0,
       .above = 0,
       .aliases = {"rope_parameters.low_freq_factor"},
       .doc = "llama3: wavelengths above original / this are divided by factor"});
  key("rope_scaling.high_freq_factor", [](Config & c) -> auto& { return c.rope.high_freq_factor; },
      {.fallback = 4.0,
       .above = 0,
       .aliases = {"rope_parameters.high_freq_factor"},
       .doc = "llama3: wavelengths below original / this are kept"});
  key("rope_scaling.beta_fast", [](Config & c) -> auto& { return c.rope.beta_fast; },
      {.fallback = 32.0,
       .above = 0,
       .aliases = {"rope_parameters.beta_fast"},
       .doc = "yarn: rotations in the original context from which frequencies are kept"});
  key("rope_scaling.beta_slow", [](Config & c) -> auto& { return c.rope.beta_slow; },
      {.fallback = 1.0,
       .above = 0,
       .aliases = {"rope_parameters.beta_slow"},
       .doc = "yarn: rotations below which they are divided by factor"});
  key("rope_scaling.truncate", [](Config & c) -> auto& { return c.rope.truncate; },
      {.fallback = true,
       .aliases = {"rope_parameters.truncate"},
       .doc = "yarn: round the ends of the ramp to whole dims"});
  key("rope_scaling.attention_factor", [](Config & c) -> auto& { return c.rope.attention_factor; },
      {.fallback = 0.0,
       .min = 0,
       .aliases = {"rope_parameters.attention_factor"},
       .doc = "yarn: multiplies cosines and sines; 0 = from mscale, else 0.1 ln(factor) + 1"});
  key("rope_scaling.mscale", [](Config & c) -> auto& { return c.rope.mscale; },
      {.fallback = 0.0,
       .min = 0,
       .aliases = {"rope_parameters.mscale"},
       .doc = "yarn: with mscale_all_dim, gives attention_factor"});
  key("rope_scaling.mscale_all_dim", [](Config & c) -> auto& { return c.rope.mscale_all_dim; },
      {.fallback = 0.0,
       .min = 0,
       .aliases = {"rope_parameters.mscale_all_dim"},
       .doc = "yarn: see mscale"});
}

void shared_keys(Schema<Config>& key, const Defaults& defaults) {
  key("vocab_size", &Config::vocab_size,
      {.required = true, .min = 1, .doc = "rows of the token table"});
  key("hidden_size", &Config::hidden_size, {.required = true, .min = 1, .doc = "model width D"});
  key("num_hidden_layers", &Config::num_hidden_layers,
      {.required = true, .min = 0, .doc = "decoder layers"});
  key("num_attention_heads", &Config::num_attention_heads,
      {.required = true, .min = 1, .doc = "query heads N"});
  key("num_key_value_heads", &Config::num_key_value_heads, defaults.num_key_value_heads);
  key("head_dim", &Config::head_dim,
      {.min = 2, .doc = "head width H; default hidden_size / num_attention_heads"});
  key("intermediate_size", &Config::intermediate_size,
      {.required = true, .min = 1, .doc = "feed-forward width F"});
  key("max_position_embeddings", &Config::max_position_embeddings,
      {.fallback = defaults.max_position_embeddings,
       .min = 1,
       .doc = "tokens of context that the model was made for"});
  key("sliding_window", &Config::sliding_window,
      {.fallback = defaults.sliding_window,
       .min = 0,
       .flags = LAMINA_KEY_NULL_IS_ZERO,
       .doc = "tokens a query sees, itself included; 0 = all"});
  key("hidden_act", &Config::hidden_act,
      {.fallback = "silu",
       .choices = {"silu", "swish", "gelu", "gelu_new", "gelu_pytorch_tanh", "gelu_fast", "relu",
                   "sigmoid"},
       .doc = "activation of the feed-forward's gate"});
  key("rms_norm_eps", &Config::rms_norm_eps,
      {.fallback = 1e-6, .above = 0, .doc = "added to the mean square in norms"});
  key("initializer_range", &Config::initializer_range,
      {.fallback = 0.02, .above = 0, .doc = "standard deviation of fresh weights"});
  key("attention_bias", &Config::attention_bias,
      {.fallback = false, .doc = "biases in the four attention projections"});
  key("mlp_bias", &Config::mlp_bias,
      {.fallback = false, .doc = "biases in the three feed-forward matrices"});
  key("tie_word_embeddings", &Config::tie_word_embeddings,
      {.fallback = false, .doc = "the head is the token table"});
  rope_keys(key);
  // attention_dropout is 0 in every published file; pretraining_tp only splits the same products.
  key.ignore({"attention_dropout", "pretraining_tp"});
}

}  // namespace

void llama_keys(Schema<Config>& key) {
  shared_keys(key, {.max_position_embeddings = 2048,
                    .sliding_window = 0,
                    .num_key_value_heads = {
                        .same_as = "num_attention_heads", .min = 1, .doc = "key/value heads K"}});
}

void mistral_keys(Schema<Config>& key) {
  shared_keys(key, {.max_position_embeddings = 4096 * 32,
                    .sliding_window = 4096,
                    .num_key_value_heads = {.fallback = 8, .min = 1, .doc = "key/value heads K"}});
}

void derive(const Config& c, const Derived& derived) {
  if (c.hidden_size % c.num_attention_heads == 0)
    derived.set("head_dim", c.hidden_size / c.num_attention_heads);
}

void validate(const Config& c, const Problems& problem) {
  if (c.head_dim == 0) {
    problem("head_dim",
            "is missing, and num_attention_heads = " + std::to_string(c.num_attention_heads) +
                " does not divide hidden_size = " + std::to_string(c.hidden_size) +
                "; give head_dim");
  } else if (c.head_dim % 2 != 0) {
    problem("head_dim",
            "got " + std::to_string(c.head_dim) + "; rotary positions need an even head_dim");
  }
  if (c.num_attention_heads % c.num_key_value_heads != 0)
    problem("num_key_value_heads",
            "got " + std::to_string(c.num_key_value_heads) +
                "; it must divide num_attention_heads = " + std::to_string(c.num_attention_heads));
  if (c.rope_type == "llama3" && c.rope.low_freq_factor > c.rope.high_freq_factor)
    problem("rope_scaling.low_freq_factor",
            "is larger than rope_scaling.high_freq_factor; it must be at most that");
}

RopeOptions rope_options(const Config& c) {
  RopeOptions o = c.rope;
  o.scaling = c.rope_type == "default" ? "none" : c.rope_type;
  o.max_positions = c.max_position_embeddings;
  return o;
}

}  // namespace llama
