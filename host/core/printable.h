// Makes untrusted text safe to print.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lamina {

// Returns whether a text begins with U+202A to U+202E or U+2066 to U+2069, which override the
// direction of the text after them.
bool overrides_direction(std::string_view text);

// Returns `text` with control characters, overrides of direction and invalid UTF-8 as \xNN, cut
// after `max_bytes` with "...". Names of files, keys and tokens may contain anything, and terminals
// execute some control characters.
std::string printable(std::string_view text, std::size_t max_bytes = 120);
// Returns the whole text, keeping its line feeds and tabs: for text that is already laid out.
std::string printable_lines(std::string_view text);

}  // namespace lamina
