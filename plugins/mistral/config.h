// The [model] keys of the Mistral families, for the equations in model.cc.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "lamina/sdk.h"

namespace mistral {

struct Config : lamina::sdk::StandardConfig, lamina::sdk::MoeConfig {
  std::int64_t sliding_window;                // tokens; inside a block the layer's window, 0 = all
  std::vector<std::string_view> layer_types;  // empty = all layers have the window
};

void mistral_keys(lamina::sdk::Schema<Config>& key);
void mixtral_keys(lamina::sdk::Schema<Config>& key);
void validate_mistral(const Config& c, const lamina::sdk::Problems& problem);
void validate_mixtral(const Config& c, const lamina::sdk::Problems& problem);

inline constexpr std::uint32_t kBlock = 1;
std::vector<lamina::sdk::Weight> mistral_weights();
std::vector<lamina::sdk::Weight> mixtral_weights();

}  // namespace mistral
