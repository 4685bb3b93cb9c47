// A layer of one model and one of another, as run files write them: "4:8", "last:last".
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace lamina::config {

// From 0; nothing: the last layer.
struct LayerPair {
  std::optional<std::int64_t> student, teacher;
};

// Nothing where `text` is not a pair. Whether there are such layers is not known here.
std::optional<LayerPair> parse_layer_pair(std::string_view text);

}  // namespace lamina::config
