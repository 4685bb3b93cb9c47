// The [model] keys of Gemma 1, 2 and 3, for the equations in model.cc.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "lamina/sdk.h"

namespace gemma {

// hidden_act is config.json's hidden_activation, except in Gemma 1; rope is for global layers.
struct Config : lamina::sdk::StandardConfig {
  std::int64_t sliding_window;                // tokens that local layers see
  std::int64_t sliding_window_pattern;        // every such layer is global; 0 = not given
  std::vector<std::string_view> layer_types;  // empty = by the pattern
  std::int64_t query_pre_attn_scalar;         // scores are divided by its root; 0 = head_dim
  double attn_logit_softcapping, final_logit_softcapping;  // 0 = none
  double rope_local_base_freq;                             // of local layers
  bool use_bidirectional_attention;
  bool is_gguf;  // the weights are from a GGUF file
};

void gemma_keys(lamina::sdk::Schema<Config>& key);
void gemma2_keys(lamina::sdk::Schema<Config>& key);
void gemma3_keys(lamina::sdk::Schema<Config>& key);
void gemma2_derive(const Config& c, const lamina::sdk::Derived& derived);
void gemma3_derive(const Config& c, const lamina::sdk::Derived& derived);
void validate(const Config& c, const lamina::sdk::Problems& problem);  // Gemma 1
void gemma2_validate(const Config& c, const lamina::sdk::Problems& problem);
void gemma3_validate(const Config& c, const lamina::sdk::Problems& problem);

// The type of each layer: layer_types, or else the family's pattern.
std::vector<std::string_view> gemma2_types(const Config& c);
std::vector<std::string_view> gemma3_types(const Config& c);

inline constexpr std::uint32_t kLocal = 1, kGlobal = 2;
std::vector<lamina::sdk::Weight> gemma_weights();     // a norm before each sub-layer
std::vector<lamina::sdk::Weight> sandwich_weights();  // and one after it: Gemma 2 and 3

}  // namespace gemma
