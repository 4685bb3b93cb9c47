// The [model] keys of Phi-3, for the equations in model.cc.
#pragma once

#include <cstdint>
#include <vector>

#include "lamina/sdk.h"

namespace phi {

struct Config : lamina::sdk::StandardConfig {
  std::int64_t sliding_window;  // tokens, 0 = all
};

void keys(lamina::sdk::Schema<Config>& key);

inline constexpr std::uint32_t kBlock = 1;
std::vector<lamina::sdk::Weight> weights();

}  // namespace phi
