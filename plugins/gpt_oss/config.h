// The [model] keys of gpt-oss, for the equations in model.cc.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "lamina/sdk.h"

namespace gpt_oss {

struct Config : lamina::sdk::StandardConfig, lamina::sdk::MoeConfig {
  std::int64_t sliding_window;                // tokens; inside a block its layer's, 0 = all
  std::vector<std::string_view> layer_types;  // empty = alternating windowed and full layers
  double swiglu_limit, swiglu_alpha;
  bool is_gguf;  // the weights are from a GGUF file
};

void keys(lamina::sdk::Schema<Config>& key);
void derive(const Config& c, const lamina::sdk::Derived& derived);
void validate(const Config& c, const lamina::sdk::Problems& problem);

// The type of each layer.
std::vector<std::string_view> types_of(const Config& c);

inline constexpr std::uint32_t kBlock = 1;
std::vector<lamina::sdk::Weight> weights();

}  // namespace gpt_oss
