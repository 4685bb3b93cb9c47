// The [model] keys of the Llama families, for the equations in model.cc.
#pragma once

#include <cstdint>
#include <vector>

#include "lamina/sdk.h"

namespace llama {

struct Config : lamina::sdk::StandardConfig {
  std::int64_t sliding_window;  // tokens, 0 = all
  bool mlp_bias;
  bool gated_mlp;  // for the parallel block
  // For learn-to-init: heads of the teacher and their width.
  std::int64_t teacher_num_attention_heads, teacher_num_key_value_heads, teacher_head_dim;
  bool lti_use_general_linear_map;

  lamina::sdk::GatedMlpOptions mlp_options() const {
    lamina::sdk::GatedMlpOptions out = StandardConfig::mlp_options();
    out.bias = mlp_bias;
    return out;
  }
};

void llama_keys(lamina::sdk::Schema<Config>& key);
void default_keys(lamina::sdk::Schema<Config>& key);
void learned_keys(lamina::sdk::Schema<Config>& key);
void validate_learned(const Config& c, const lamina::sdk::Problems& problem);

inline constexpr std::uint32_t kBlock = 1;
std::vector<lamina::sdk::Weight> weights();
std::vector<lamina::sdk::Weight> learned_weights();  // for learn_to_init.cc

}  // namespace llama
