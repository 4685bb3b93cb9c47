// The families of this plugin, as constants.
#pragma once

#include "config.h"

namespace qwen {

// dense.cc
std::vector<lamina::sdk::Block<Config>> qwen2_blocks();
std::vector<lamina::sdk::Block<Config>> qwen3_blocks();
lamina::sdk::Plan dense_plan(const Config& c);

inline constexpr lamina::sdk::Model<Config> kQwen2 = {
    .family = {.name = "qwen2",
               .aliases = {"qwen2.5"},
               .hf_model_types = {"qwen2"},
               .hf_architectures = {"Qwen2ForCausalLM"},
               .hf_prefixes = lamina::sdk::kTextPrefixes,
               .doc = "Qwen 2 and 2.5: biases on queries, keys and values"},
    .keys = qwen2_keys,
    .validate = validate,
    .blocks = qwen2_blocks,
    .plan = dense_plan,
    .weights = weights,
};

inline constexpr lamina::sdk::Model<Config> kQwen3 = {
    .family = {.name = "qwen3",
               .hf_model_types = {"qwen3"},
               .hf_architectures = {"Qwen3ForCausalLM"},
               .hf_prefixes = lamina::sdk::kTextPrefixes,
               .doc = "Qwen 3, dense: norms of queries and keys per head"},
    .keys = qwen3_keys,
    .validate = validate,
    .blocks = qwen3_blocks,
    .plan = dense_plan,
    .weights = weights,
};

inline constexpr lamina::sdk::Model<Config> kQwen3Vl = {
    .family = {.name = "qwen3_vl",
               .hf_model_types = {"qwen3_vl", "qwen3_vl_text"},
               .hf_architectures = {"Qwen3VLForConditionalGeneration"},
               .hf_prefixes = {"model.language_model.", "model."},
               .doc = "Qwen3-VL, the text decoder: positions of time, height and width"},
    .keys = qwen3_vl_keys,
    .validate = validate,
    .blocks = qwen3_blocks,
    .weights = weights,
};

}  // namespace qwen
