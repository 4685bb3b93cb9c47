// The [model] keys of GPT-2 and GPT-3, for the equations in model.cc.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "lamina/sdk.h"

namespace gpt3 {

struct Config {
  std::int64_t vocab_size;   // V
  std::int64_t hidden_size;  // D
  std::int64_t num_hidden_layers;
  std::int64_t num_attention_heads;      // N
  std::int64_t head_dim;                 // H
  std::int64_t intermediate_size;        // F
  std::int64_t max_position_embeddings;  // rows of the table of positions
  std::string_view activation_function;
  double layer_norm_epsilon;
  double layer_norm_offset;
  double initializer_range;
  double dropout_rate;
  bool scale_attn_weights;
  bool scale_attn_by_inverse_layer_idx;
  bool tie_word_embeddings;
};

void keys(lamina::sdk::Schema<Config>& key);
void derive(const Config& c, const lamina::sdk::Derived& derived);
void validate(const Config& c, const lamina::sdk::Problems& problem);

inline constexpr std::uint32_t kBlock = 1;
std::vector<lamina::sdk::Weight> weights();

}  // namespace gpt3
