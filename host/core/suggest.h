// The nearest name to a mistyped one, for "did you mean".
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace lamina {

// Returns the candidate that differs in the case of letters only; else the one with the smallest
// edit distance (insert, delete, replace, swap neighbours), and among those the one with the
// longest common prefix; "" if the distance exceeds a third of the longer name's length (at least
// 2), unless only one candidate begins with `typed`. Names of more than 256 bytes never match.
std::string nearest_name(std::string_view typed, std::span<const std::string> candidates);

}  // namespace lamina
