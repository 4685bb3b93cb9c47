// The [model] keys of the Llama families, as the equations in model.cc read them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "lamina/sdk.h"

namespace llama {

struct Config {
  std::int64_t vocab_size;   // V
  std::int64_t hidden_size;  // D
  std::int64_t num_hidden_layers;
  std::int64_t num_attention_heads;      // N
  std::int64_t num_key_value_heads;      // K
  std::int64_t head_dim;                 // H
  std::int64_t intermediate_size;        // F
  std::int64_t max_position_embeddings;  // tokens
  std::int64_t sliding_window;           // tokens, 0 = all
  std::string_view hidden_act;
  double rms_norm_eps;
  double initializer_range;
  bool attention_bias;
  bool mlp_bias;
  bool tie_word_embeddings;
  std::string_view rope_type;  // Hugging Face's name; rope.scaling is the op's
  lamina::sdk::RopeOptions rope;
};

void llama_keys(lamina::sdk::Schema<Config>& key);
void mistral_keys(lamina::sdk::Schema<Config>& key);
void derive(const Config& c, const lamina::sdk::Derived& derived);
void validate(const Config& c, const lamina::sdk::Problems& problem);

// Rotary positions as the op takes them.
lamina::sdk::RopeOptions rope_options(const Config& c);

inline constexpr std::uint32_t kBlock = 1;
std::vector<lamina::sdk::Weight> weights();

}  // namespace llama
