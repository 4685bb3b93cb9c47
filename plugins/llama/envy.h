// Envy: the [model] keys, for the equations in envy.cc, and the family as a constant.
#pragma once

#include <cstdint>
#include <vector>

#include "lamina/sdk.h"

namespace llama {

struct EnvyConfig : lamina::sdk::StandardConfig, lamina::sdk::MoeConfig {
  std::int64_t moe_intermediate_size;      // F of an expert
  std::int64_t interleave_moe_layer_step;  // one in this many layers has experts
  bool use_qk_norm, use_post_ffw_norm;
  bool normalize_embedding_logits;
};

void envy_keys(lamina::sdk::Schema<EnvyConfig>& key);
void validate_envy(const EnvyConfig& c, const lamina::sdk::Problems& problem);
std::vector<lamina::sdk::Block<EnvyConfig>> envy_blocks();
lamina::sdk::Plan envy_plan(const EnvyConfig& c);
lamina::sdk::Head envy_head(const EnvyConfig& c);
std::vector<lamina::sdk::Weight> envy_weights();

inline constexpr lamina::sdk::Model<EnvyConfig> kEnvy = {
    .family = {.name = "envy",
               .hf_model_types = {"envy"},
               .hf_architectures = {"EnvyForCausalLM"},
               .hf_prefixes = lamina::sdk::kTextPrefixes,
               .doc = "MaxText's envy-switch: alternating dense and top-1 expert layers"},
    .keys = envy_keys,
    .validate = validate_envy,
    .blocks = envy_blocks,
    .plan = envy_plan,
    .head = envy_head,
    .weights = envy_weights,
};

}  // namespace llama
