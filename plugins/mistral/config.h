// The [model] keys of the Mistral families, as the equations in model.cc read them.
#pragma once

#include <cstdint>
#include <vector>

#include "lamina/sdk.h"

namespace mistral {

struct Config : lamina::sdk::StandardConfig, lamina::sdk::MoeConfig {
  std::int64_t sliding_window;  // tokens, 0 = all
};

void mistral_keys(lamina::sdk::Schema<Config>& key);
void mixtral_keys(lamina::sdk::Schema<Config>& key);
void validate_mixtral(const Config& c, const lamina::sdk::Problems& problem);

inline constexpr std::uint32_t kBlock = 1;
std::vector<lamina::sdk::Weight> mistral_weights();
std::vector<lamina::sdk::Weight> mixtral_weights();

}  // namespace mistral
