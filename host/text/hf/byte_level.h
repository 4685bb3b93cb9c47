// GPT-2's alphabet (Radford et al. 2019): one character per byte, none of them a space or a control
// character, so that byte tokens can be written as text.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "text/traced.h"

namespace lamina::text {

// The bytes of a token of a byte-level vocabulary ("G with dot above" is a space); nothing if it
// contains a character that is not in the alphabet.
std::optional<std::string> byte_level_bytes(std::string_view token);
// Likewise to `out`, which has room for token.size(); returns the number of bytes, or -1.
std::ptrdiff_t byte_level_bytes(std::string_view token, char* out);

// The character of one byte.
std::string_view byte_level_character(unsigned char byte);
std::string byte_level_spelling(std::string_view bytes);
// Writes the rest with each byte as its character.
void write_byte_level(PieceWriter& out);

}  // namespace lamina::text
