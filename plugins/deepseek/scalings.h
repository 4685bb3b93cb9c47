// The kinds of rotary scaling of DeepSeek's models.
#pragma once

#include <string_view>
#include <vector>

namespace deepseek {

// longrope needs factors by frequency, which no model of these families has.
inline std::vector<std::string_view> scalings() {
  return {"default", "linear", "dynamic", "llama3", "yarn"};
}

}  // namespace deepseek
