#include "config/layer_pair.h"

#include <charconv>
#include <system_error>

namespace lamina::config {
namespace {

bool parse_layer(std::string_view text, std::optional<std::int64_t>& out) {
  if (text == "last") return true;
  std::int64_t layer = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), layer);
  if (error != std::errc() || end != text.data() + text.size() || layer < 0) return false;
  out = layer;
  return true;
}

}  // namespace

std::optional<LayerPair> parse_layer_pair(std::string_view text) {
  const std::size_t colon = text.find(':');
  LayerPair out;
  if (colon == std::string_view::npos || !parse_layer(text.substr(0, colon), out.student) ||
      !parse_layer(text.substr(colon + 1), out.teacher))
    return std::nullopt;
  return out;
}

}  // namespace lamina::config
