// What kind of character: the classes that added tokens and digit splitting ask for.
#pragma once

#include <cstddef>
#include <string_view>

namespace lamina::text {

// Bytes of the character that begins with this byte. REQUIRES: valid UTF-8.
inline std::size_t character_bytes(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

// White space as in the Unicode property White_Space.
bool is_space(char32_t c);
// General category N: digits, letter numbers, fractions.
bool is_numeric(char32_t c);
// \w: letters, marks, decimal digits, connectors, joiners.
bool is_word(char32_t c);

// General category P, and the symbols among ASCII's.
bool is_punctuation(char32_t c);

// White space that `text` (valid UTF-8) begins with, and where that at its end begins.
std::size_t leading_space_bytes(std::string_view text);
std::size_t trailing_space_begin(std::string_view text);

// The code point that `text` ends with. REQUIRES: valid UTF-8, not empty.
char32_t last_character(std::string_view text);

}  // namespace lamina::text
