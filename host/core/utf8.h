// UTF-8: which bytes form a character, which do not.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lamina {

// Bytes of the well-formed character that `text` begins with (1 to 4); 0 if it begins with none
// (an overlong form, a surrogate, a stray or missing continuation byte, or the end).
std::size_t utf8_length(std::string_view text);

// Likewise, but where the character is broken or cut: the number of bytes (at least 1) that one
// U+FFFD stands for (the "maximal subpart" of the Unicode standard, section 3.9), and whether more
// bytes could still complete it.
struct Utf8Step {
  std::size_t num_bytes;  // 0 only for an empty text
  bool valid;
  bool cut;  // !valid and the text ends inside a character that is right so far
};
Utf8Step utf8_step(std::string_view text);

// The code point of a character that utf8_length() accepted.
char32_t utf8_decode(std::string_view character);

// Whether a byte of well-formed text is one of a character, but not its first.
inline bool utf8_continues(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

// How many characters well-formed text has.
std::size_t utf8_num_characters(std::string_view text);

// Appends the code point. REQUIRES: not a surrogate, at most 0x10ffff.
void utf8_append(std::string& out, char32_t code_point);

// Offset of the first byte that is not well-formed, or npos.
std::size_t find_invalid_utf8(std::string_view text);

// Offset of the first control character (C0 but for tab and line feed, DEL, C1), or npos: what
// makes a terminal do something else than show text. REQUIRES: well-formed.
std::size_t find_control(std::string_view text);

// `text` with every maximal broken part as U+FFFD.
std::string replace_invalid_utf8(std::string_view text);

}  // namespace lamina
