// UTF-8 validation and decoding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lamina {

// Returns the length of the well-formed character at the start of `text` (1 to 4 bytes); 0 if there
// is none (an overlong form, a surrogate, a stray or missing continuation byte, or the end).
std::size_t utf8_length(std::string_view text);

// Returns the same, or, for a broken or truncated character, the number of bytes (at least 1) that
// one U+FFFD replaces (the "maximal subpart" of the Unicode standard, section 3.9), and whether
// further bytes could complete it.
struct Utf8Step {
  std::size_t num_bytes;  // 0 only for an empty text
  bool valid;
  bool cut;  // !valid, and the text ends inside a character that is valid so far
};
Utf8Step utf8_step(std::string_view text);

// Returns the code point of a character that utf8_length() accepted.
char32_t utf8_decode(std::string_view character);

// Returns whether a byte of well-formed text is inside a character, after its first byte.
inline bool utf8_continues(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

// Returns the number of characters of well-formed text.
std::size_t utf8_num_characters(std::string_view text);

// Appends the code point. REQUIRES: not a surrogate, at most 0x10ffff.
void utf8_append(std::string& out, char32_t code_point);

// Returns the offset of the first byte that is not well-formed, or npos.
std::size_t find_invalid_utf8(std::string_view text);

// Returns the offset of the first control character (C0 except tab and line feed, DEL, C1), or
// npos: characters that terminals may execute. REQUIRES: well-formed.
std::size_t find_control(std::string_view text);

// Returns `text` with every maximal broken part replaced by U+FFFD.
std::string replace_invalid_utf8(std::string_view text);

}  // namespace lamina
