// The [model] keys of the Llama families, as the equations in model.cc read them.
#pragma once

#include <cstdint>
#include <vector>

#include "lamina/sdk.h"

namespace llama {

struct Config : lamina::sdk::StandardConfig {
  std::int64_t sliding_window;  // tokens, 0 = all
  bool mlp_bias;
};

void llama_keys(lamina::sdk::Schema<Config>& key);
void mistral_keys(lamina::sdk::Schema<Config>& key);
void derive(const Config& c, const lamina::sdk::Derived& derived);
void validate(const Config& c, const lamina::sdk::Problems& problem);

inline constexpr std::uint32_t kBlock = 1;
std::vector<lamina::sdk::Weight> weights();

}  // namespace llama
