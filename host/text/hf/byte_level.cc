#include "text/hf/byte_level.h"

#include <array>
#include <cstdint>

#include "core/utf8.h"

namespace lamina::text {
namespace {

// Code point of the alphabet -> byte, or -1. Printable bytes map to themselves; the others follow
// from U+0100 in order.
constexpr std::array<std::int16_t, 0x144> make_alphabet() {
  std::array<std::int16_t, 0x144> byte_of{};
  for (auto& b : byte_of) b = -1;
  std::size_t next = 0x100;
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const bool printable =
        (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
    byte_of[printable ? byte : next++] = static_cast<std::int16_t>(byte);
  }
  return byte_of;
}
constexpr std::array<std::int16_t, 0x144> kByteOf = make_alphabet();

}  // namespace

std::ptrdiff_t byte_level_bytes(std::string_view token, char* out) {
  char* at = out;
  for (std::size_t i = 0; i < token.size();) {
    unsigned code = static_cast<unsigned char>(token[i++]);
    if (code - '!' <= unsigned{'~' - '!'}) {  // the common case
      *at++ = static_cast<char>(code);
      continue;
    }
    if (code >= 0x80) {
      // The alphabet ends at U+0143: two bytes at most. JSON text is valid UTF-8.
      if ((code & 0xe0) != 0xc0 || i == token.size()) return -1;
      code = (code & 0x1f) << 6 | (static_cast<unsigned char>(token[i++]) & 0x3f);
    }
    if (code >= kByteOf.size() || kByteOf[code] < 0) return -1;
    *at++ = static_cast<char>(kByteOf[code]);
  }
  return at - out;
}

std::optional<std::string> byte_level_bytes(std::string_view token) {
  std::string bytes(token.size(), '\0');
  const std::ptrdiff_t length = byte_level_bytes(token, bytes.data());
  if (length < 0) return std::nullopt;
  bytes.resize(static_cast<std::size_t>(length));
  return bytes;
}

std::string_view byte_level_character(unsigned char byte) {
  static const auto characters = [] {
    std::array<std::string, 256> table;
    for (std::size_t code = 0; code < kByteOf.size(); ++code)
      if (kByteOf[code] >= 0)
        utf8_append(table[static_cast<std::size_t>(kByteOf[code])], static_cast<char32_t>(code));
    return table;
  }();
  return characters[byte];
}

std::string byte_level_spelling(std::string_view bytes) {
  std::string out;
  for (char byte : bytes) out += byte_level_character(static_cast<unsigned char>(byte));
  return out;
}

void write_byte_level(PieceWriter& out) {
  while (!out.done()) {
    const auto byte = static_cast<unsigned char>(out.rest()[0]);
    const std::string_view character = byte_level_character(byte);
    if (character.size() == 1 && static_cast<unsigned char>(character[0]) == byte)
      out.keep(1);
    else
      out.replace(1, character);
  }
}

}  // namespace lamina::text
