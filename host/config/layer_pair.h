// A pair of layers, of two models, as run files write it: "4:8", "last:last".
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace lamina::config {

// Indices from 0; absent: the last layer.
struct LayerPair {
  std::optional<std::int64_t> student, teacher;
};

// Returns nothing if `text` is not a pair. Does not check whether the layers exist.
std::optional<LayerPair> parse_layer_pair(std::string_view text);

}  // namespace lamina::config
