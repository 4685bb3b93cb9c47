// The [model] keys of the OLMo families, for the equations in model.cc.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "lamina/sdk.h"

namespace olmo {

// `rope` is for layers without a window, sliding_rope for the others.
struct Config : lamina::sdk::StandardConfig {
  std::string_view qk_norm;                   // "whole" or "per_head"
  std::int64_t sliding_window;                // tokens; inside a block its layer's, 0 = all
  std::vector<std::string_view> layer_types;  // empty = every fourth layer has no window
  // Factor 0 = not given: the other layers' scaling.
  lamina::sdk::RopeConfig sliding_rope = {.options = {.factor = 0}};
  bool is_gguf;  // the weights are from a GGUF file
};

void olmo2_keys(lamina::sdk::Schema<Config>& key);
void olmo3_keys(lamina::sdk::Schema<Config>& key);
void olmo3_derive(const Config& c, const lamina::sdk::Derived& derived);
void olmo3_validate(const Config& c, const lamina::sdk::Problems& problem);

inline constexpr std::uint32_t kBlock = 1;
std::vector<lamina::sdk::Weight> weights();

}  // namespace olmo
