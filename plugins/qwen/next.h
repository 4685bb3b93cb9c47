// Qwen 3 Next and Qwen 3.5: the [model] keys, for the equations in next.cc, and the families as
// constants.
#pragma once

#include "moe.h"

namespace qwen {

struct NextConfig : SparseConfig {
  std::int64_t full_attention_interval;  // one in this many layers is attention
  bool attn_output_gate;                 // the output of attention is gated by the query projection
  std::int64_t linear_conv_kernel_dim;   // taps
  std::int64_t linear_num_key_heads, linear_num_value_heads;  // K, N
  std::int64_t linear_key_head_dim, linear_value_head_dim;    // H, V
  bool recurrence_across_documents;  // states continue across documents of a packed row
  std::int64_t shared_expert_intermediate_size;

  std::int64_t key_dim() const { return linear_num_key_heads * linear_key_head_dim; }
  std::int64_t value_dim() const { return linear_num_value_heads * linear_value_head_dim; }
};

void qwen3_next_keys(lamina::sdk::Schema<NextConfig>& key);
void qwen3_5_keys(lamina::sdk::Schema<NextConfig>& key);
void qwen3_5_moe_keys(lamina::sdk::Schema<NextConfig>& key);
void validate_next(const NextConfig& c, const lamina::sdk::Problems& problem);
void validate_qwen3_5(const NextConfig& c, const lamina::sdk::Problems& problem);

inline constexpr std::string_view kLinearAttention = "linear_attention";
// Blocks by mixer and feed-forward.
inline constexpr std::uint32_t kLinearDense = 1, kLinearSparse = 2, kFullDense = 3, kFullSparse = 4;
std::vector<lamina::sdk::Weight> next_weights();
std::vector<lamina::sdk::Weight> qwen3_5_weights();

// next.cc
std::vector<lamina::sdk::Block<NextConfig>> next_blocks();
std::vector<lamina::sdk::Block<NextConfig>> qwen3_5_blocks();
lamina::sdk::Plan next_plan(const NextConfig& c);
lamina::sdk::Plan qwen3_5_plan(const NextConfig& c);
lamina::sdk::Plan qwen3_5_moe_plan(const NextConfig& c);
lamina::sdk::Head next_head(const NextConfig& c);
// Published prediction layers have attention, whatever the last layer is.
std::uint32_t next_mtp_layer(const NextConfig& c);
std::uint32_t qwen3_5_mtp_layer(const NextConfig& c);
std::uint32_t qwen3_5_moe_mtp_layer(const NextConfig& c);

// Names for the layer that predicts one token further.
inline constexpr lamina::sdk::MtpNames kMtpNames = {
    .layer = "mtp.layers.{P}.",
    .own = "mtp.",
    .embedding_norm = "pre_fc_norm_embedding.weight",
    .hidden_norm = "pre_fc_norm_hidden.weight",
    .projection = "fc.weight",
    .norm_offset = 1};

inline constexpr lamina::sdk::Model<NextConfig> kQwen3Next = {
    .family = {.name = "qwen3_next",
               .hf_model_types = {"qwen3_next"},
               .hf_architectures = {"Qwen3NextForCausalLM"},
               .hf_prefixes = lamina::sdk::kTextPrefixes,
               .doc = "Qwen 3 Next: three gated delta nets per gated attention, experts"},
    .keys = qwen3_next_keys,
    .validate = validate_next,
    .blocks = next_blocks,
    .plan = next_plan,
    .head = next_head,
    .mtp_inputs = lamina::sdk::MtpInputs::published,
    .mtp_layer = next_mtp_layer,
    .mtp_names = kMtpNames,
    .weights = next_weights,
};

inline constexpr lamina::sdk::Model<NextConfig> kQwen35 = {
    .family = {.name = "qwen3_5",
               .aliases = {"qwen3.5"},
               .hf_model_types = {"qwen3_5_text", "qwen3_5"},
               .hf_architectures = {"Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration"},
               .hf_prefixes = {"model.language_model.", "model."},
               .doc = "Qwen 3.5, dense, the text decoder: gated delta nets and gated attention"},
    .keys = qwen3_5_keys,
    .validate = validate_qwen3_5,
    .blocks = qwen3_5_blocks,
    .plan = qwen3_5_plan,
    .head = next_head,
    .mtp_inputs = lamina::sdk::MtpInputs::published,
    .mtp_layer = qwen3_5_mtp_layer,
    .mtp_names = kMtpNames,
    .weights = qwen3_5_weights,
};

inline constexpr lamina::sdk::Model<NextConfig> kQwen35Moe = {
    .family = {.name = "qwen3_5_moe",
               .hf_model_types = {"qwen3_5_moe_text", "qwen3_5_moe"},
               .hf_architectures = {"Qwen3_5MoeForCausalLM", "Qwen3_5MoeForConditionalGeneration"},
               .hf_prefixes = {"model.language_model.", "model."},
               .doc = "Qwen 3.5 with mixtures of experts, the text decoder: 35B-A3B, 397B-A17B"},
    .keys = qwen3_5_moe_keys,
    .validate = validate_next,
    .blocks = qwen3_5_blocks,
    .plan = qwen3_5_moe_plan,
    .head = next_head,
    .mtp_inputs = lamina::sdk::MtpInputs::published,
    .mtp_layer = qwen3_5_moe_mtp_layer,
    .mtp_names = kMtpNames,
    .weights = qwen3_5_weights,
};

}  // namespace qwen
