// Kinds of characters: the classes needed for added tokens and digit splitting.
#pragma once

#include <cstddef>
#include <string_view>

namespace lamina::text {

// Number of bytes of the character that begins with this byte. REQUIRES: valid UTF-8.
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

// Number of bytes of white space at the beginning of `text` (valid UTF-8), and the start of the
// white space at its end.
std::size_t leading_space_bytes(std::string_view text);
std::size_t trailing_space_begin(std::string_view text);

// The last code point of `text`. REQUIRES: valid UTF-8, not empty.
char32_t last_character(std::string_view text);

}  // namespace lamina::text
