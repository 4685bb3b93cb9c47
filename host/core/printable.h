// Text from outside, fit to print.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lamina {

// `text` fit to print: control characters and invalid UTF-8 as \xNN, cut after `max_bytes` with
// "...". A terminal obeys some of them: names of files, keys and tokens come from anywhere.
std::string printable(std::string_view text, std::size_t max_bytes = 120);
// Likewise, whole, with its line feeds and tabs: for text that is laid out already.
std::string printable_lines(std::string_view text);

}  // namespace lamina
