// The [model] keys of LFM2, for the equations in model.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "lamina/sdk.h"

namespace lfm2 {

struct Config : lamina::sdk::StandardConfig {
  std::int64_t conv_taps;
  bool conv_bias;
  bool adjusts_ff_dim;        // intermediate_size is not the width yet, see feed_forward_dim()
  std::int64_t block_ff_dim;  // older name of intermediate_size, 0 = not given
  double ffn_dim_multiplier;
  std::int64_t ff_multiple_of;
  std::vector<std::string_view> layer_types;                // empty = by the next two
  std::optional<std::vector<std::int64_t>> full_attn_idxs;  // layers with attention; absent = all
  std::vector<std::int64_t> gguf_kv_heads;  // of each layer in a GGUF file; 0 = a convolution
  bool is_gguf;
};

inline constexpr std::string_view kConvolution = "conv";

void keys(lamina::sdk::Schema<Config>& key);
void derive(const Config& c, const lamina::sdk::Derived& derived);
void validate(const Config& c, const lamina::sdk::Problems& problem);

// The width of the feed-forward.
std::int64_t feed_forward_dim(const Config& c);
// The kind of each layer.
std::vector<std::string_view> types_of(const Config& c);

inline constexpr std::uint32_t kConv = 1, kAttention = 2;
std::vector<lamina::sdk::Weight> weights();

}  // namespace lfm2
