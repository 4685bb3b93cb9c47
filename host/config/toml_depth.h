// How deep TOML text nests, seen before a parser recurses on it.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace lamina::config {

// Parts of a dotted key or header, tables and lists that may be inside each other.
inline constexpr int kMaxTomlDepth = 32;

// The offset at which `text` first nests deeper, if it does. Of text that is not TOML, any answer.
std::optional<std::size_t> find_too_deep(std::string_view text);

}  // namespace lamina::config
