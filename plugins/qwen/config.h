// The [model] keys of the dense Qwen families, for the equations in dense.cc.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "lamina/sdk.h"

namespace qwen {

struct Config : lamina::sdk::StandardConfig {
  bool use_sliding_window;
  std::int64_t sliding_window;                // tokens; inside a block its layer's, 0 = all
  std::int64_t max_window_layers;             // layers before this one have no window
  std::vector<std::string_view> layer_types;  // empty = by max_window_layers

  bool has_window() const { return use_sliding_window && sliding_window > 0; }
};

void qwen2_keys(lamina::sdk::Schema<Config>& key);
void qwen3_keys(lamina::sdk::Schema<Config>& key);
void qwen3_vl_keys(lamina::sdk::Schema<Config>& key);
void validate(const Config& c, const lamina::sdk::Problems& problem);

// The type of each layer.
std::vector<std::string_view> types_of(const Config& c);

inline constexpr std::uint32_t kBlock = 1;
std::vector<lamina::sdk::Weight> weights();

}  // namespace qwen
