// The [model] keys of Llama 4. Names and defaults are those in Hugging Face's configuration.

#include "llama4.h"

#include <algorithm>

#include "lamina/ext/gguf.h"

namespace llama {
namespace {

constexpr std::string_view kChunkedAttention = "chunked_attention";

}  // namespace

using namespace lamina::sdk;

void llama4_keys(Schema<Llama4Config>& key) {
  using C = Llama4Config;
  standard_keys(key, {.max_position_embeddings = 4096 * 32,
                      .rms_norm_eps = 1e-5,
                      .intermediate_size = 0,
                      .num_key_value_heads = 8,
                      .head_dim = 128,
                      .rope = {.theta = 500000}});
  // GGUF files swap these two names.
  key("intermediate_size", &C::intermediate_size,
      {.fallback = 8192,
       .min = 1,
       .aliases = {"llama4.expert_feed_forward_length"},
       .doc = "feed-forward width F"});
  key("intermediate_size_mlp", &C::intermediate_size_mlp,
      {.fallback = 16384,
       .min = 1,
       .aliases = {"llama4.feed_forward_length"},
       .doc = "width of layers without experts"});
  key("interleave_moe_layer_step", &C::interleave_moe_layer_step,
      {.fallback = 1,
       .min = 0,
       .doc = "one in this many layers has experts; 0 = the layers are in moe_layers"});
  key("no_rope_layer_interval", &C::no_rope_layer_interval,
      {.fallback = 4,
       .min = 1,
       .doc = "one in this many layers has no rotary positions and global attention"});
  key("no_rope_layers", &C::no_rope_layers,
      {.fallback = std::vector<std::int64_t>{},
       .min = 0,
       .max = 1,
       .flags = LAMINA_KEY_NULL_IS_ZERO,
       .doc = "1 or 0 per layer: with or without rotary positions; empty = by "
              "no_rope_layer_interval"});
  key("attention_chunk_size", &C::attention_chunk_size,
      {.fallback = 8192,
       .min = 0,
       .flags = LAMINA_KEY_NULL_IS_ZERO,
       .doc = "chunk size in tokens: layers with positions attend within a chunk only; 0 = all"});
  key("use_qk_norm", &C::use_qk_norm,
      {.doc = "unweighted norms of queries and keys in layers with positions; default true"});
  key(LAMINA_GGUF_KEY, &C::is_gguf,
      {.fallback = false,
       .flags = LAMINA_KEY_HF_ONLY,
       .doc = "true for weights from a GGUF file, which lacks use_qk_norm"});
  key("gguf_window", &C::gguf_window,
      {.min = 0,
       .aliases = {"sliding_window"},
       .flags = LAMINA_KEY_HF_ONLY,
       .doc = "window of a GGUF file: 0 turns chunks off, other values have no effect"});
  key("attn_temperature_tuning", &C::attn_temperature_tuning,
      {.fallback = true,
       .doc = "scale queries in layers without positions by the logarithm of their position"});
  key("floor_scale", &C::floor_scale,
      {.fallback = 8192, .min = 1, .doc = "tokens until the first scaling step"});
  key("attn_scale", &C::attn_scale, {.fallback = 0.1, .doc = "coefficient of the logarithm"});
  moe_keys(key, {.experts_key = "num_local_experts",
                 .experts_aliases = {"num_experts"},
                 .experts = 16,
                 .least_experts = 0,
                 .per_token = 1,
                 .balances_layers = false});
  key("moe_layers", &C::moe_layers,
      {.min = 0,
       .doc = "indices of layers with experts, from 0; those beyond the last layer have no effect; "
              "empty = none; default: by interleave_moe_layer_step"});
  key("layer_types", &C::layer_types,
      {.choices = {kChunkedAttention, kFullAttention},
       .flags = LAMINA_KEY_PER_LAYER,
       .doc = "attention of each layer; full without positions, else chunked"});
  // The host warns of router noise. The other keys are for images.
  key.ignore({"router_jitter_noise", "vision_config", "boi_token_index", "eoi_token_index",
              "image_token_index", "for_llm_compressor"});
}

// Among the published models, Maverick (128 experts) has no norms of queries and keys.
void derive_llama4(const Llama4Config& c, const Derived& derived) {
  constexpr std::int64_t kExpertsWithoutNorms = 128;
  derived.set("use_qk_norm", !c.is_gguf || c.num_experts != kExpertsWithoutNorms);
}

namespace {

// A dense model has no experts and lists no layer with them, as Llama Guard 4.
void check_experts(const Llama4Config& c, const Problems& problem) {
  bool some = false;
  for (std::int64_t i = 0; i < c.num_hidden_layers; ++i) some = some || has_experts(c, i);
  // GGUF files have no moe_layers, and llama.cpp reads 0 as no layer with experts.
  if (!c.moe_layers && c.interleave_moe_layer_step == 0 && !c.is_gguf)
    problem("interleave_moe_layer_step",
            "got 0 without moe_layers; it must be at least 1, or moe_layers must list the layers "
            "with experts, eg: [] for none");
  else if (c.num_experts == 0 && some)
    problem("num_local_experts", "got 0, but by ",
            c.moe_layers ? "moe_layers" : "interleave_moe_layer_step",
            " there are layers with experts; it must be at least 1, or moe_layers must be empty");
}

}  // namespace

void validate_llama4(const Llama4Config& c, const Problems& problem) {
  check_moe(c, problem, "num_local_experts");
  if (c.is_gguf && c.gguf_window == 0)
    problem("gguf_window",
            "got 0, no chunks; such a GGUF file does not say which layers have "
            "rotary positions, so use the safetensors files of the same model");
  const auto listed = static_cast<std::int64_t>(c.no_rope_layers.size());
  if (listed != 0 && listed != c.num_hidden_layers)
    problem("no_rope_layers", "has ", c.no_rope_layers.size(),
            " elements; it must have one for each of the ", c.num_hidden_layers,
            " layers, or none");
  check_experts(c, problem);
  if (listed != 0 && listed != c.num_hidden_layers) return;
  for (std::size_t i = 0; i < c.layer_types.size(); ++i) {
    const bool sees_all = is_global(c, static_cast<std::int64_t>(i)) || c.attention_chunk_size == 0;
    const std::string_view right = sees_all ? kFullAttention : kChunkedAttention;
    if (c.layer_types[i] == right) continue;
    problem("layer_types", "got ", c.layer_types[i], " for layer ", i,
            "; by its positions (no_rope_layers, no_rope_layer_interval) and "
            "attention_chunk_size it must be ",
            right);
    return;
  }
}

bool is_global(const Llama4Config& c, std::int64_t i) {
  if (!c.no_rope_layers.empty()) return c.no_rope_layers[static_cast<std::size_t>(i)] == 0;
  return (i + 1) % c.no_rope_layer_interval == 0;
}

bool has_experts(const Llama4Config& c, std::int64_t i) {
  if (c.moe_layers)
    return std::find(c.moe_layers->begin(), c.moe_layers->end(), i) != c.moe_layers->end();
  const std::int64_t step = c.interleave_moe_layer_step;
  return step > 0 && (i + 1) % step == 0;
}

}  // namespace llama
