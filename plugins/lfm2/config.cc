// The [model] keys of LFM2: names, defaults, limits and constraints. Names and defaults are those
// in Hugging Face's configuration.

#include "config.h"

#include <algorithm>
#include <cmath>

#include "lamina/ext/gguf.h"

namespace lfm2 {

using namespace lamina::sdk;

namespace {

// Widths up to this are whole numbers in a double.
constexpr double kWidest = 1LL << 53;

// The feed-forward's width before it is rounded up to a multiple.
double narrowed(const Config& c) {
  return std::trunc(c.ffn_dim_multiplier *
                    std::trunc(2 * static_cast<double>(c.intermediate_size) / 3));
}

void feed_forward_keys(Schema<Config>& key) {
  key.drop("intermediate_size");
  key("intermediate_size", &Config::intermediate_size,
      {.min = 1, .doc = "feed-forward width F, before it is adjusted; default 12288"});
  key("block_ff_dim", &Config::block_ff_dim,
      {.min = 1, .flags = LAMINA_KEY_HF_ONLY, .doc = "intermediate_size in older files"});
  key("block_auto_adjust_ff_dim", &Config::adjusts_ff_dim,
      {.doc = "the feed-forward's width is two thirds of intermediate_size, multiplied and rounded "
              "by the next two keys; default true"});
  key.factor("block_ffn_dim_multiplier", &Config::ffn_dim_multiplier, 1.0,
             "factor of the feed-forward's width");
  key("block_multiple_of", &Config::ff_multiple_of,
      {.fallback = 256,
       .min = 1,
       .max = 1 << 20,
       .doc = "the feed-forward's width is rounded up to a multiple"});
}

// Keys of published files that transformers does not read.
void other_keys(Schema<Config>& key) {
  key.only("block_use_swiglu", true, "feed-forwards are gated by silu");
  key.only("use_pos_enc", true, "queries and keys have rotary positions");
  key.ignore({"block_dim", "block_mlp_init_scale", "block_norm_eps", "block_out_init_scale",
              "block_use_xavier_init", "conv_dim", "conv_dim_out", "conv_use_xavier_init",
              "num_heads"});
}

void layer_keys(Schema<Config>& key) {
  key.drop("num_key_value_heads");
  key("num_key_value_heads", &Config::num_key_value_heads,
      {.min = 1, .doc = "key/value heads K; default 8"});
  key("full_attn_idxs", &Config::full_attn_idxs,
      {.min = 0,
       .doc = "layers with attention, from 0, if layer_types is not given; indices beyond the last "
              "layer have no effect; empty = none; default: all"});
  key("layer_types", &Config::layer_types,
      {.choices = {kConvolution, kFullAttention},
       .flags = LAMINA_KEY_PER_LAYER,
       .doc = "conv or full_attention, one per layer; default: by full_attn_idxs"});
  key("lfm2.attention.head_count_kv", &Config::gguf_kv_heads,
      {.min = 0,
       .flags = LAMINA_KEY_HF_ONLY | LAMINA_KEY_PER_LAYER,
       .doc = "key/value heads of each layer in a GGUF file; 0 for a convolution"});
}

}  // namespace

void keys(Schema<Config>& key) {
  standard_keys(key, {.max_position_embeddings = 128000,
                      .rms_norm_eps = 1e-5,
                      .tie_word_embeddings = true,
                      .rope = {.theta = 1e6}});
  key.drop("hidden_act");
  key.drop("attention_bias");
  key.rename("rms_norm_eps", "norm_eps");
  key.alias("norm_eps", "rms_norm_eps");  // of GGUF files
  key.alias("tie_word_embeddings", "tie_embedding");
  key.alias("rope_theta", "theta");  // of the first release
  key.size("conv_L_cache", &Config::conv_taps, 3, "taps of the convolutions, in tokens");
  key.alias("conv_L_cache", "lfm2.shortconv.l_cache");
  key.flag("conv_bias", &Config::conv_bias, false,
           "biases in the convolutions and their projections");
  feed_forward_keys(key);
  layer_keys(key);
  other_keys(key);
  key(LAMINA_GGUF_KEY, &Config::is_gguf,
      {.fallback = false,
       .flags = LAMINA_KEY_HF_ONLY,
       .doc = "true for a GGUF file, which has the adjusted width of the feed-forward"});
}

void derive(const Config& c, const Derived& derived) {
  derived.set("intermediate_size", c.block_ff_dim > 0 ? c.block_ff_dim : std::int64_t{12288});
  derived.set("block_auto_adjust_ff_dim", !c.is_gguf);
  const auto& heads = c.gguf_kv_heads;
  std::int64_t kv_heads = heads.empty() ? 8 : *std::max_element(heads.begin(), heads.end());
  if (kv_heads == 0) kv_heads = c.num_attention_heads;  // without attention any number will do
  derived.set("num_key_value_heads", kv_heads);
}

void validate(const Config& c, const Problems& problem) {
  if (c.block_ff_dim > 0 && c.block_ff_dim != c.intermediate_size)
    problem("block_ff_dim", "got ", c.block_ff_dim,
            " and intermediate_size = ", c.intermediate_size, "; remove one of them");
  if (c.adjusts_ff_dim && (narrowed(c) < 1 || narrowed(c) > kWidest))
    problem("block_ffn_dim_multiplier", "got ", c.ffn_dim_multiplier,
            " with intermediate_size = ", c.intermediate_size, ", which is a width of ",
            narrowed(c), "; it must be from 1 to ", kWidest);
  for (std::int64_t heads : c.gguf_kv_heads)
    if (heads != 0 && heads != c.num_key_value_heads)
      problem("lfm2.attention.head_count_kv", "got ", heads, " and ", c.num_key_value_heads,
              "; all layers with attention must have the same number");
}

std::int64_t feed_forward_dim(const Config& c) {
  if (!c.adjusts_ff_dim) return c.intermediate_size;
  const auto width = static_cast<std::int64_t>(narrowed(c));
  return (width + c.ff_multiple_of - 1) / c.ff_multiple_of * c.ff_multiple_of;
}

std::vector<std::string_view> types_of(const Config& c) {
  if (!c.layer_types.empty()) return c.layer_types;
  const std::string_view others = c.full_attn_idxs ? kConvolution : kFullAttention;
  std::vector<std::string_view> types(static_cast<std::size_t>(c.num_hidden_layers), others);
  if (c.full_attn_idxs)
    for (std::int64_t layer : *c.full_attn_idxs)
      if (layer < c.num_hidden_layers) types[static_cast<std::size_t>(layer)] = kFullAttention;
  for (std::size_t layer = 0; layer < c.gguf_kv_heads.size(); ++layer)
    types[layer] = c.gguf_kv_heads[layer] == 0 ? kConvolution : kFullAttention;
  return types;
}

}  // namespace lfm2
