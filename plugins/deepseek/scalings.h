// Rotary scalings of DeepSeek's models.
#pragma once

#include <cmath>
#include <string_view>
#include <vector>

namespace deepseek {

// longrope needs factors by frequency, which no model of these families has.
inline std::vector<std::string_view> scalings() {
  return {"default", "linear", "dynamic", "llama3", "yarn"};
}

// By how much yarn multiplies what it scales, for a context that is `factor` times longer.
inline double yarn_scale(double factor, double mscale) {
  return factor > 1 ? 0.1 * mscale * std::log(factor) + 1 : 1;
}

}  // namespace deepseek
