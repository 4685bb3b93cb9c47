// The [model] keys of Gemma 1, 2 and 3: names, defaults, limits and constraints. Names and defaults
// are those in Hugging Face's configurations; published files leave out values at their default.

#include "config.h"

#include <algorithm>
#include <optional>

#include "lamina/ext/gguf.h"

namespace gemma {
namespace {

using namespace lamina::sdk;

// Defaults in which families differ.
struct Defaults {
  std::int64_t vocab_size, num_attention_heads, num_key_value_heads, max_position_embeddings;
  double rope_theta;
  std::string_view rope_group = {};  // for global layers
  std::string_view activation_key = "hidden_activation";
};

void shared_keys(Schema<Config>& key, const Defaults& defaults) {
  standard_keys(key, {.vocab_size = defaults.vocab_size,
                      .max_position_embeddings = defaults.max_position_embeddings,
                      .activation_key = defaults.activation_key,
                      .hidden_act = "gelu_pytorch_tanh",
                      .tie_word_embeddings = true,
                      .num_attention_heads = defaults.num_attention_heads,
                      .num_key_value_heads = defaults.num_key_value_heads,
                      .head_dim = 256,
                      .rope = {.theta = defaults.rope_theta, .group = defaults.rope_group}});
  key("use_bidirectional_attention", &Config::use_bidirectional_attention,
      {.fallback = false,
       .flags = LAMINA_KEY_HF_ONLY,
       .doc = "bidirectional attention; must be false: lamina is decoder-only"});
  key(LAMINA_GGUF_KEY, &Config::is_gguf,
      {.fallback = false,
       .flags = LAMINA_KEY_HF_ONLY,
       .doc = "true for weights from a GGUF file, which lacks query_pre_attn_scalar"});
  key.ignore({"cache_implementation"});  // a setting of the reading program
}

// Keys of the families with local and global layers. A window without a default is derived.
void window_keys(Schema<Config>& key, double final_logit_softcapping,
                 std::optional<std::int64_t> window) {
  key("query_pre_attn_scalar", &Config::query_pre_attn_scalar,
      {.above = 0, .doc = "attention scores are divided by its square root; default 256"});
  key("final_logit_softcapping", &Config::final_logit_softcapping,
      {.fallback = final_logit_softcapping,
       .min = 0,
       .flags = LAMINA_KEY_NULL_IS_ZERO,
       .doc = "soft cap c of the logits, c * tanh(x / c); 0 = off"});
  key("sliding_window", &Config::sliding_window,
      {.fallback = window,
       .min = 0,
       .flags = LAMINA_KEY_NULL_IS_ZERO,
       .doc = "tokens that a query of a local layer sees, including itself; default 4096"});
  key("layer_types", &Config::layer_types,
      {.choices = {kSlidingAttention, kFullAttention},
       .flags = LAMINA_KEY_PER_LAYER,
       .doc = "local or global, one per layer; default: by the family's pattern"});
}

}  // namespace

void gemma_keys(Schema<Config>& key) {
  shared_keys(key, {.vocab_size = 256000,
                    .num_attention_heads = 16,
                    .num_key_value_heads = 16,
                    .max_position_embeddings = 8192,
                    .rope_theta = 10000.0,
                    .activation_key = "hidden_act"});
  full_attention_only(key);
  key.ignore({"hidden_activation"});  // published beside hidden_act, and not read by transformers
}

void gemma2_keys(Schema<Config>& key) {
  shared_keys(key, {.vocab_size = 256000,
                    .num_attention_heads = 8,
                    .num_key_value_heads = 4,
                    .max_position_embeddings = 8192,
                    .rope_theta = 10000.0});
  window_keys(key, 30.0, 4096);
  key("attn_logit_softcapping", &Config::attn_logit_softcapping,
      {.fallback = 50.0,
       .min = 0,
       .flags = LAMINA_KEY_NULL_IS_ZERO,
       .doc = "soft cap c of attention scores before the mask, c * tanh(x / c); 0 = off"});
}

void gemma3_keys(Schema<Config>& key) {
  shared_keys(key, {.vocab_size = 262208,
                    .num_attention_heads = 8,
                    .num_key_value_heads = 4,
                    .max_position_embeddings = 131072,
                    .rope_theta = 1000000.0,
                    .rope_group = kFullAttention});
  window_keys(key, 0.0, {});
  key("sliding_window_pattern", &Config::sliding_window_pattern,
      {.min = 1,
       .doc = "one in this many layers is global, if layer_types is not given; default 6"});
  key("rope_local_base_freq", &Config::rope_local_base_freq,
      {.fallback = 10000.0,
       .above = 0,
       .aliases = {"rope_parameters.sliding_attention.rope_theta"},
       .doc = "base of the rotary frequencies of local layers"});
  key.only("rope_parameters.sliding_attention.rope_type", std::string_view("default"),
           "positions of local layers are never stretched");
  // Gemma 3 has no soft cap on scores. Transformers writes _sliding_window_pattern beside any
  // layer_types.
  key.ignore({"attn_logit_softcapping", "_sliding_window_pattern"});
}

namespace {

// GGUF files lack query_pre_attn_scalar: it is head_dim except in the largest model of each family,
// which is recognised by its number of layers.
void derive_scalar(const Config& c, std::int64_t layers_of_largest, const Derived& derived) {
  const std::int64_t of_gguf =
      c.num_hidden_layers == layers_of_largest ? c.hidden_size / c.num_attention_heads : c.head_dim;
  derived.set("query_pre_attn_scalar", c.is_gguf ? of_gguf : std::int64_t{256});
}

std::vector<std::string_view> types_of(const Config& c, std::int64_t pattern) {
  if (!c.layer_types.empty()) return c.layer_types;
  return alternating_kinds(c.num_hidden_layers, pattern, kFullAttention, kSlidingAttention);
}

void check_window(const Config& c, const std::vector<std::string_view>& types,
                  const Problems& problem) {
  if (c.sliding_window == 0 && std::ranges::find(types, kSlidingAttention) != types.end())
    problem("sliding_window", "got 0 with sliding_attention layers; it must be at least 1");
}

}  // namespace

void gemma2_derive(const Config& c, const Derived& derived) { derive_scalar(c, 46, derived); }

// All layers of a GGUF file without a window are global, as in llama.cpp.
void gemma3_derive(const Config& c, const Derived& derived) {
  derive_scalar(c, 62, derived);
  derived.set("sliding_window", 4096);
  if (c.is_gguf && c.sliding_window == 0) derived.set("sliding_window_pattern", 1);
}

std::vector<std::string_view> gemma2_types(const Config& c) { return types_of(c, 2); }
std::vector<std::string_view> gemma3_types(const Config& c) {
  return types_of(c, c.sliding_window_pattern > 0 ? c.sliding_window_pattern : 6);
}

void validate(const Config& c, const Problems& problem) {
  if (c.use_bidirectional_attention)
    problem("use_bidirectional_attention",
            "got true; a decoder's attention is causal, so it must be false");
}

void gemma2_validate(const Config& c, const Problems& problem) {
  validate(c, problem);
  check_window(c, gemma2_types(c), problem);
}

void gemma3_validate(const Config& c, const Problems& problem) {
  validate(c, problem);
  check_window(c, gemma3_types(c), problem);
  if (c.sliding_window_pattern == 0) return;
  const std::vector<std::string_view> by_pattern = alternating_kinds(
      c.num_hidden_layers, c.sliding_window_pattern, kFullAttention, kSlidingAttention);
  for (std::size_t i = 0; i < c.layer_types.size(); ++i) {
    if (c.layer_types[i] == by_pattern[i]) continue;
    problem("layer_types", "layer ", i, " is '", c.layer_types[i],
            "', by sliding_window_pattern = ", c.sliding_window_pattern, " it is '", by_pattern[i],
            "'; remove one of them");
    return;
  }
}

}  // namespace gemma
