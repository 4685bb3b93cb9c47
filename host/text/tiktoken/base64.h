// Base64 (RFC 4648), which represents bytes in text files.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lamina::text {

// The decoded bytes, or nothing if `text` is not whole groups of four characters of the standard
// alphabet.
std::optional<std::string> base64_decode(std::string_view text);

}  // namespace lamina::text
