// Patterns of published names in tensor maps.
#pragma once

#include <cstdint>
#include <string_view>

namespace lamina::weights {

// Matches "h.{L}.attn.*": {L}, {P} and {E} match numbers, * anything. `layer` receives the number
// of {L}, or the layer that {P} counts from `num_layers`. Only the last * needs backtracking, so
// the time is at most proportional to the product of both lengths.
bool fits(std::string_view pattern, std::string_view text, std::int64_t& layer,
          std::int64_t num_layers = 0);

}  // namespace lamina::weights
