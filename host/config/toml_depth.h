// Checks how deep TOML text nests, before a parser recurses on it.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace lamina::config {

// Limit for parts of a dotted key or header, and for nested tables and lists.
inline constexpr int kMaxTomlDepth = 32;

// Returns the offset at which `text` first exceeds kMaxTomlDepth, if any. The result is arbitrary
// for text that is not TOML.
std::optional<std::size_t> find_too_deep(std::string_view text);

}  // namespace lamina::config
