// The [model] keys of the dense Qwen families. Names and defaults are those in Hugging Face's
// configurations.

#include "config.h"

#include <algorithm>

#include "lamina/ext/gguf.h"

namespace qwen {
namespace {

using namespace lamina::sdk;

void window_keys(Schema<Config>& key) {
  key("use_sliding_window", &Config::use_sliding_window,
      {.fallback = false, .doc = "the later layers use a sliding window"});
  key("sliding_window", &Config::sliding_window,
      {.fallback = 4096,
       .min = 0,
       .flags = LAMINA_KEY_NULL_IS_ZERO,
       .doc = "tokens a query of those layers sees, including itself; 0 = all"});
  key("max_window_layers", &Config::max_window_layers,
      {.fallback = 28, .min = 0, .doc = "layers before this one have no window"});
  key("layer_types", &Config::layer_types,
      {.choices = {kFullAttention, kSlidingAttention},
       .flags = LAMINA_KEY_PER_LAYER,
       .doc = "attention of each layer; default: by max_window_layers"});
}

// GGUF files have the same rows.
void gguf_key(Schema<Config>& key) { key.ignore({LAMINA_GGUF_KEY}); }

}  // namespace

void qwen2_keys(Schema<Config>& key) {
  standard_keys(key, {.max_position_embeddings = 32768, .num_key_value_heads = 32});
  // MaxText's block may lack the biases. The published models have them whatever their files say.
  key.drop("attention_bias");
  key("attention_bias", &Config::attention_bias,
      {.fallback = true, .own = true, .doc = "biases of queries, keys and values"});
  key.ignore({"attention_bias"});
  window_keys(key);
  gguf_key(key);
}

void qwen3_keys(Schema<Config>& key) {
  standard_keys(key,
                {.max_position_embeddings = 32768, .num_key_value_heads = 32, .head_dim = 128});
  window_keys(key);
  gguf_key(key);
}

void qwen3_vl_keys(Schema<Config>& key) {
  standard_keys(key,
                {.max_position_embeddings = 128000,
                 .num_key_value_heads = 32,
                 .head_dim = 128,
                 .rope = {.theta = 5e5, .mrope_section = {24, 20, 20}, .mrope_interleaved = true}});
  full_attention_only(key);
  // The vision encoder and its placeholder tokens; text needs neither.
  key.ignore({"vision_config", "image_token_id", "video_token_id", "vision_start_token_id",
              "vision_end_token_id"});
}

void validate(const Config& c, const Problems& problem) {
  if (!c.has_window() && std::find(c.layer_types.begin(), c.layer_types.end(), kSlidingAttention) !=
                             c.layer_types.end())
    problem(
        "layer_types",
        "has sliding_attention layers without a window; they need use_sliding_window = true and "
        "a sliding_window above 0");
}

std::vector<std::string_view> types_of(const Config& c) {
  const auto layers = static_cast<std::size_t>(c.num_hidden_layers);
  if (!c.has_window()) return std::vector<std::string_view>(layers, kFullAttention);
  if (!c.layer_types.empty()) return c.layer_types;
  std::vector<std::string_view> types(layers, kSlidingAttention);
  for (std::size_t i = 0; i < layers && i < static_cast<std::size_t>(c.max_window_layers); ++i)
    types[i] = kFullAttention;
  return types;
}

}  // namespace qwen
