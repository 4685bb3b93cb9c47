#include "core/utf8.h"

#include <algorithm>
#include <cstring>
#include <functional>

namespace lamina {
namespace {

unsigned byte_at(std::string_view text, std::size_t i) {
  return static_cast<unsigned char>(text[i]);
}

}  // namespace

Utf8Step utf8_step(std::string_view text) {
  if (text.empty()) return {0, false, false};
  const unsigned first = byte_at(text, 0);
  if (first < 0x80) return {1, true, false};
  if (first < 0xc2 || first > 0xf4) return {1, false, false};
  const std::size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  // Only the second byte's range depends on the first (Unicode, table 3-7).
  unsigned low = 0x80, high = 0xbf;
  if (first == 0xe0) low = 0xa0;
  if (first == 0xed) high = 0x9f;
  if (first == 0xf0) low = 0x90;
  if (first == 0xf4) high = 0x8f;
  for (std::size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {i, false, true};
    const unsigned byte = byte_at(text, i);
    if (byte < low || byte > high) return {i, false, false};
    low = 0x80, high = 0xbf;
  }
  return {length, true, false};
}

std::size_t utf8_length(std::string_view text) {
  const Utf8Step step = utf8_step(text);
  return step.valid ? step.num_bytes : 0;
}

char32_t utf8_decode(std::string_view character) {
  const unsigned first = byte_at(character, 0);
  if (first < 0x80) return first;
  char32_t code = first < 0xe0 ? first & 0x1f : first < 0xf0 ? first & 0x0f : first & 0x07;
  const std::size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  for (std::size_t i = 1; i < length; ++i) code = (code << 6) | (byte_at(character, i) & 0x3f);
  return code;
}

std::size_t utf8_num_characters(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, std::not_fn(utf8_continues)));
}

void utf8_append(std::string& out, char32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xc0 | (code >> 6));
    out += static_cast<char>(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xe0 | (code >> 12));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3f));
    out += static_cast<char>(0x80 | (code & 0x3f));
  } else {
    out += static_cast<char>(0xf0 | (code >> 18));
    out += static_cast<char>(0x80 | ((code >> 12) & 0x3f));
    out += static_cast<char>(0x80 | ((code >> 6) & 0x3f));
    out += static_cast<char>(0x80 | (code & 0x3f));
  }
}

std::size_t find_invalid_utf8(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    // Eight ASCII bytes at a time.
    while (at + 8 <= text.size()) {
      std::uint64_t word;
      std::memcpy(&word, text.data() + at, 8);
      if (word & 0x8080808080808080u) break;
      at += 8;
    }
    if (at == text.size()) break;
    const std::size_t length = utf8_length(text.substr(at, 4));
    if (length == 0) return at;
    at += length;
  }
  return std::string_view::npos;
}

std::size_t find_control(std::string_view text) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if ((byte < 0x20 && byte != '\t' && byte != '\n') || byte == 0x7f) return at;
    // U+0080 to U+009F are C2 80 to C2 9F.
    if (byte == 0xc2 && at + 1 < text.size() && static_cast<unsigned char>(text[at + 1]) < 0xa0)
      return at;
  }
  return text.npos;
}

std::string replace_invalid_utf8(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t bad = find_invalid_utf8(text);
    out += text.substr(0, bad);
    if (bad == std::string_view::npos) break;
    text.remove_prefix(bad);
    out += "\xef\xbf\xbd";
    text.remove_prefix(utf8_step(text).num_bytes);
  }
  return out;
}

}  // namespace lamina
