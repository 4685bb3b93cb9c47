// What kind of character: the classes that added tokens and digit splitting ask for.
#pragma once

#include <string_view>

namespace lamina::text {

// White space as in the Unicode property White_Space.
bool is_space(char32_t c);
// General category N: digits, letter numbers, fractions.
bool is_numeric(char32_t c);
// \w: letters, marks, decimal digits, connectors, joiners.
bool is_word(char32_t c);

// The code point that `text` ends with. REQUIRES: valid UTF-8, not empty.
char32_t last_character(std::string_view text);

}  // namespace lamina::text
