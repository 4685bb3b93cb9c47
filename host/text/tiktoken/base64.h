// Base64 (RFC 4648): how files of text hold bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace lamina::text {

// The bytes, or nothing where `text` is not whole groups of four of the standard alphabet.
std::optional<std::string> base64_decode(std::string_view text);

}  // namespace lamina::text
