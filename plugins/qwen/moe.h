// Qwen 3 with mixtures of experts: the [model] keys, for the equations in moe.cc, and the families
// as constants.
#pragma once

#include "config.h"

namespace qwen {

struct SparseConfig : Config, lamina::sdk::MoeConfig {
  std::int64_t moe_intermediate_size;         // F of an expert
  bool norm_topk_prob = true;                 // weights are divided by their sum
  std::int64_t decoder_sparse_step;           // one in this many layers has experts
  std::vector<std::int64_t> mlp_only_layers;  // layers without experts
  // For the custom block.
  std::int64_t attention_output_dim, moe_expert_input_dim;  // A, twice
  bool use_qk_norm;
};

void qwen3_moe_keys(lamina::sdk::Schema<SparseConfig>& key);
void qwen3_vl_moe_keys(lamina::sdk::Schema<SparseConfig>& key);
void qwen3_omni_moe_keys(lamina::sdk::Schema<SparseConfig>& key);
void qwen3_custom_moe_keys(lamina::sdk::Schema<SparseConfig>& key);
void validate_moe(const SparseConfig& c, const lamina::sdk::Problems& problem);
// Checks everything but the layer types.
void validate_experts(const SparseConfig& c, const lamina::sdk::Problems& problem);
void validate_vl_moe(const SparseConfig& c, const lamina::sdk::Problems& problem);
void validate_custom_moe(const SparseConfig& c, const lamina::sdk::Problems& problem);
void derive_custom_moe(const SparseConfig& c, const lamina::sdk::Derived& derived);

inline constexpr std::uint32_t kDense = 1, kSparse = 2, kCustom = 3;
std::vector<lamina::sdk::Weight> moe_weights();
std::vector<lamina::sdk::Weight> custom_moe_weights();

// moe.cc
// Softmax over all experts, the best K per token, divided by their sum if so configured.
lamina::sdk::Tensor mixture(lamina::sdk::Scope s, const SparseConfig& c, lamina::sdk::Tensor x,
                            const lamina::sdk::Step& step);
std::vector<lamina::sdk::Block<SparseConfig>> moe_blocks();
// True for layer i, by num_experts, decoder_sparse_step and mlp_only_layers.
bool has_experts(const SparseConfig& c, std::int64_t i);
lamina::sdk::Plan moe_plan(const SparseConfig& c);
std::vector<lamina::sdk::Block<SparseConfig>> custom_moe_blocks();

inline constexpr lamina::sdk::Model<SparseConfig> kQwen3Moe = {
    .family = {.name = "qwen3_moe",
               .hf_model_types = {"qwen3_moe"},
               .hf_architectures = {"Qwen3MoeForCausalLM"},
               .hf_prefixes = lamina::sdk::kTextPrefixes,
               .doc = "Qwen 3 with mixtures of experts: 30B-A3B, 235B-A22B, Coder 480B-A35B"},
    .keys = qwen3_moe_keys,
    .validate = validate_moe,
    .blocks = moe_blocks,
    .plan = moe_plan,
    .weights = moe_weights,
};

inline constexpr lamina::sdk::Model<SparseConfig> kQwen3VlMoe = {
    .family = {.name = "qwen3_vl_moe",
               .hf_model_types = {"qwen3_vl_moe", "qwen3_vl_moe_text"},
               .hf_architectures = {"Qwen3VLMoeForConditionalGeneration"},
               .hf_prefixes = {"model.language_model.", "model."},
               .doc = "Qwen3-VL 30B-A3B and 235B-A22B, the text decoder: positions of time, height "
                      "and width"},
    .keys = qwen3_vl_moe_keys,
    .validate = validate_vl_moe,
    .blocks = moe_blocks,
    .plan = moe_plan,
    .weights = moe_weights,
};

inline constexpr lamina::sdk::Model<SparseConfig> kQwen3OmniMoe = {
    .family = {.name = "qwen3_omni_moe",
               .hf_model_types = {"qwen3_omni_moe", "qwen3_omni_moe_text"},
               .hf_architectures = {"Qwen3OmniMoeForConditionalGeneration"},
               .hf_prefixes = {"thinker.model.", "thinker.", "model."},
               .doc = "Qwen3-Omni 30B-A3B, the thinker: positions of time, height and width"},
    .keys = qwen3_omni_moe_keys,
    .validate = validate_vl_moe,
    .blocks = moe_blocks,
    .plan = moe_plan,
    .weights = moe_weights,
};

inline constexpr lamina::sdk::Model<SparseConfig> kQwen3CustomMoe = {
    .family = {.name = "qwen3_custom_moe",
               .hf_model_types = {"qwen3_custom_moe"},
               .hf_architectures = {"Qwen3CustomMoeForCausalLM"},
               .hf_prefixes = {"model."},
               .doc = "MaxText's custom block: attention and experts in a narrow space"},
    .keys = qwen3_custom_moe_keys,
    .derive = derive_custom_moe,
    .validate = validate_custom_moe,
    .blocks = custom_moe_blocks,
    .weights = custom_moe_weights,
};

}  // namespace qwen
