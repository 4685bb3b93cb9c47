// The [model] keys of Qwen 3 with mixtures of experts. Names and defaults are those in Hugging
// Face's configurations; for the custom block, MaxText's.

#include "moe.h"

#include "lamina/ext/gguf.h"

namespace qwen {
namespace {

using namespace lamina::sdk;

struct SparseDefaults {
  StandardDefaults standard;
  MoeDefaults mixture = {
      .experts_aliases = {"num_local_experts"}, .experts = 128, .least_experts = 0, .per_token = 8};
  std::int64_t moe_intermediate_size = 768;
  std::optional<bool> norm_topk_prob = {};  // empty: no such key
};

void sparse_keys(Schema<SparseConfig>& key, const SparseDefaults& defaults) {
  standard_keys(key, defaults.standard);
  key("use_sliding_window", &SparseConfig::use_sliding_window,
      {.fallback = false, .doc = "layers use a sliding window"});
  key("sliding_window", &SparseConfig::sliding_window,
      {.fallback = 4096,
       .min = 0,
       .flags = LAMINA_KEY_NULL_IS_ZERO,
       .doc = "sliding window: tokens a query sees, including itself; 0 = all"});
  moe_keys(key, defaults.mixture);
  key("moe_intermediate_size", &SparseConfig::moe_intermediate_size,
      {.fallback = defaults.moe_intermediate_size, .min = 1, .doc = "width F of an expert"});
  // The value is true in published models that may omit it; their GGUF files lack the key.
  const std::vector<std::string_view> said_by = defaults.norm_topk_prob == false
                                                    ? std::vector<std::string_view>{LAMINA_GGUF_KEY}
                                                    : std::vector<std::string_view>{};
  if (defaults.norm_topk_prob)
    key("norm_topk_prob", &SparseConfig::norm_topk_prob,
        {.fallback = defaults.norm_topk_prob,
         .aliases = said_by,
         .doc = "weights of a token's experts are divided by their sum"});
  key("decoder_sparse_step", &SparseConfig::decoder_sparse_step,
      {.fallback = 1, .min = 0, .doc = "one in this many layers has experts; 0 = none"});
  key("mlp_only_layers", &SparseConfig::mlp_only_layers,
      {.fallback = std::vector<std::int64_t>{},
       .min = 0,
       .flags = LAMINA_KEY_NULL_IS_ZERO,
       .doc = "indices of layers without experts; those beyond the last layer have no effect"});
  key("layer_types", &SparseConfig::layer_types,
      {.choices = {kFullAttention, kSlidingAttention},
       .flags = LAMINA_KEY_HF_ONLY | LAMINA_KEY_PER_LAYER,
       .doc = "attention of each layer; must match use_sliding_window"});
  key.ignore({"max_window_layers"});  // all layers are alike, as in the original
}

RopeKeys multimodal_rope(double theta) {
  return {.theta = theta, .mrope_section = {24, 20, 20}, .mrope_interleaved = true};
}

// Ignores encoders and decoders for other modalities, and their placeholder tokens.
void ignore_encoders(Schema<SparseConfig>& key) {
  key.ignore({"vision_config", "audio_config", "image_token_id", "video_token_id", "audio_token_id",
              "vision_start_token_id", "vision_end_token_id"});
}

}  // namespace

void qwen3_moe_keys(Schema<SparseConfig>& key) {
  sparse_keys(key, {.standard = {.max_position_embeddings = 32768,
                                 .intermediate_size = 6144,
                                 .num_key_value_heads = 4},
                    .norm_topk_prob = false});
}

void qwen3_vl_moe_keys(Schema<SparseConfig>& key) {
  sparse_keys(key, {.standard = {.max_position_embeddings = 128000,
                                 .intermediate_size = 5632,
                                 .num_key_value_heads = 16,
                                 .rope = multimodal_rope(5e5)},
                    .mixture = {.experts_aliases = {"num_local_experts"},
                                .experts = 60,
                                .least_experts = 0,
                                .per_token = 4},
                    .moe_intermediate_size = 1408});
  ignore_encoders(key);
}

void qwen3_omni_moe_keys(Schema<SparseConfig>& key) {
  sparse_keys(key, {.standard = {.max_position_embeddings = 32768,
                                 .intermediate_size = 18944,
                                 .num_key_value_heads = 4,
                                 .rope = multimodal_rope(1e6)},
                    .norm_topk_prob = true});
  ignore_encoders(key);
}

void qwen3_custom_moe_keys(Schema<SparseConfig>& key) {
  sparse_keys(
      key, {.standard = {.max_position_embeddings = 32768,
                         .intermediate_size = 6144,
                         .num_key_value_heads = 2,
                         .head_dim = 256,
                         .rope = {.theta = 1e7}},
            .mixture = {.experts_aliases = {"num_local_experts"}, .experts = 128, .per_token = 8},
            .norm_topk_prob = true});
  key("attention_output_dim", &SparseConfig::attention_output_dim,
      {.min = 1, .doc = "width A of attention's output; default hidden_size"});
  key("moe_expert_input_dim", &SparseConfig::moe_expert_input_dim,
      {.same_as = "attention_output_dim", .min = 1, .doc = "input width of experts; equal to A"});
  key("use_qk_norm", &SparseConfig::use_qk_norm,
      {.fallback = true, .doc = "norms of queries and keys per head"});
}

void validate_moe(const SparseConfig& c, const Problems& problem) {
  check_uniform_layers(c.layer_types, c.has_window(), problem);
  validate_experts(c, problem);
}

void validate_experts(const SparseConfig& c, const Problems& problem) {
  if (problem.empty()) validate(c, problem);
  check_moe(c, problem);
}

void validate_vl_moe(const SparseConfig& c, const Problems& problem) {
  if (c.use_sliding_window)
    problem("use_sliding_window", "got true; the attention of this family has no window");
  validate_moe(c, problem);
}

void derive_custom_moe(const SparseConfig& c, const Derived& derived) {
  derived.set("attention_output_dim", c.hidden_size);
}

void validate_custom_moe(const SparseConfig& c, const Problems& problem) {
  validate_moe(c, problem);
  if (c.moe_expert_input_dim != c.attention_output_dim)
    problem("moe_expert_input_dim", "got ", c.moe_expert_input_dim,
            "; experts read attention's output, so it must be attention_output_dim = ",
            c.attention_output_dim);
}

}  // namespace qwen
