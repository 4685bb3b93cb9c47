// The families of this plugin that have separate files, as constants.
#pragma once

#include "config.h"

namespace llama {

// model.cc: a layer of Llama 2
lamina::sdk::Tensor layer(lamina::sdk::Scope s, const Config& c, lamina::sdk::Tensor x_BTD,
                          const lamina::sdk::Step& step);

// parallel.cc
std::vector<lamina::sdk::Block<Config>> parallel_blocks();

// learn_to_init.cc
std::vector<lamina::sdk::Block<Config>> learned_blocks();
std::uint32_t learned_mtp_layer(const Config& c);

inline constexpr lamina::sdk::Model<Config> kDefault = {
    .family = {.name = "default",
               .hf_model_types = {"default"},
               .hf_architectures = {"DefaultForCausalLM"},
               .hf_prefixes = lamina::sdk::kTextPrefixes,
               .doc = "MaxText's first decoder: attention and feed-forward in parallel"},
    .keys = default_keys,
    .blocks = parallel_blocks,
    .weights = weights,
};

inline constexpr lamina::sdk::Model<Config> kLlama2Lti = {
    .family = {.name = "llama2lti",
               .hf_model_types = {"llama2lti"},
               .hf_architectures = {"LlamaLtiForCausalLM"},
               .hf_prefixes = lamina::sdk::kTextPrefixes,
               .doc = "Llama 2 with attention weights learned from a teacher's",
               .exports_as = "llama2"},
    .keys = learned_keys,
    .validate = validate_learned,
    .blocks = learned_blocks,
    .mtp_layer = learned_mtp_layer,
    .weights = learned_weights,
};

}  // namespace llama
