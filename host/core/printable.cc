#include "core/printable.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/utf8.h"

namespace lamina {
namespace {

// C0, DEL and C1: the second half of those begins with 0xc2 in UTF-8.
bool is_control(std::string_view character) {
  const auto byte = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return byte < 0x20 || byte == 0x7f;
  return byte == 0xc2 && static_cast<unsigned char>(character[1]) < 0xa0;
}

bool is_unsafe(std::string_view character) {
  return is_control(character) || overrides_direction(character);
}

std::string escaped(std::string_view text, std::size_t max_bytes, bool keep_layout) {
  std::string out;
  out.reserve(std::min(text.size(), max_bytes));
  for (std::size_t at = 0; at < text.size();) {
    if (at >= max_bytes) return out + "...";
    const std::size_t length = utf8_length(text.substr(at));
    const std::string_view character = text.substr(at, std::max<std::size_t>(length, 1));
    const bool layout = keep_layout && (character == "\n" || character == "\t");
    if (length > 0 && (layout || !is_unsafe(character)))
      out += character;
    else
      for (char byte : character) out += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
    at += character.size();
  }
  return out;
}

}  // namespace

bool overrides_direction(std::string_view text) {
  if (text.size() < 3) return false;
  const auto last = static_cast<unsigned char>(text[2]);
  return (text.starts_with("\xe2\x80") && last >= 0xaa && last <= 0xae) ||
         (text.starts_with("\xe2\x81") && last >= 0xa6 && last <= 0xa9);
}

std::string printable(std::string_view text, std::size_t max_bytes) {
  return escaped(text, max_bytes, false);
}

std::string printable_lines(std::string_view text) { return escaped(text, text.size(), true); }

}  // namespace lamina
