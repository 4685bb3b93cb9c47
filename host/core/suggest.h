// The nearest name to a mistyped one, for "did you mean".
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace lamina {

// The candidate at the smallest edit distance (insert, delete, replace, swap neighbours), of
// those the one with the longest common beginning, or "" when none is within a third of the longer
// name's length (at least 2). No name is near one of more than 256 bytes.
std::string nearest_name(std::string_view typed, std::span<const std::string> candidates);

}  // namespace lamina
