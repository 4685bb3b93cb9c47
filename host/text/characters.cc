#include "text/characters.h"

#include <utf8proc.h>

#include <charconv>

#include "core/utf8.h"
#include "text/unicode_additions.h"

namespace lamina::text {
namespace {

// True if a category's "\x{a}-\x{b}\x{c}" contains `c`. Called rarely: only beyond Unicode 14.
bool was_added(std::string_view category, char32_t c) {
  for (const UnicodeAdditions& added : kUnicodeAdditions) {
    if (added.category != category) continue;
    std::string_view rest = added.ranges;
    const auto number = [&rest] {
      unsigned value = 0;
      std::from_chars(rest.data() + 3, rest.data() + rest.size(), value, 16);
      rest.remove_prefix(rest.find('}') + 1);
      return value;
    };
    while (!rest.empty()) {
      const unsigned first = number();
      unsigned last = first;
      if (rest.starts_with('-')) {
        rest.remove_prefix(1);
        last = number();
      }
      if (c >= first && c <= last) return true;
    }
  }
  return false;
}

utf8proc_category_t category(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

}  // namespace

bool is_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13);
  if (c == 0x85) return true;
  const utf8proc_category_t kind = category(c);
  return kind == UTF8PROC_CATEGORY_ZS || kind == UTF8PROC_CATEGORY_ZL ||
         kind == UTF8PROC_CATEGORY_ZP;
}

bool is_numeric(char32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  switch (category(c)) {
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return true;
    case UTF8PROC_CATEGORY_CN:
      return was_added("N", c);
    default:
      return false;
  }
}

bool is_word(char32_t c) {
  if (c < 0x80)
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  if (c == 0x200c || c == 0x200d) return true;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    // Circled and squared letters are alphabetic.
    case UTF8PROC_CATEGORY_SO:
      return (c >= 0x24b6 && c <= 0x24e9) || (c >= 0x1f130 && c <= 0x1f149) ||
             (c >= 0x1f150 && c <= 0x1f169) || (c >= 0x1f170 && c <= 0x1f189);
    case UTF8PROC_CATEGORY_CN:
      return was_added("L", c) || was_added("M", c) || was_added("N", c);
    default:
      return false;
  }
}

bool is_punctuation(char32_t c) {
  if (c < 0x80) return (c > ' ' && c < 0x7f && !is_word(c)) || c == '_';
  switch (category(c)) {
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return true;
    case UTF8PROC_CATEGORY_CN:
      return was_added("P", c);
    default:
      return false;
  }
}

std::size_t leading_space_bytes(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size() && is_space(utf8_decode(text.substr(at))))
    at += character_bytes(text[at]);
  return at;
}

std::size_t trailing_space_begin(std::string_view text) {
  while (!text.empty() && is_space(last_character(text))) {
    std::size_t length = 1;  // back to the beginning of the last character
    while (utf8_continues(text[text.size() - length])) ++length;
    text.remove_suffix(length);
  }
  return text.size();
}

char32_t last_character(std::string_view text) {
  std::size_t at = text.size() - 1;
  while (at > 0 && utf8_continues(text[at])) --at;
  return utf8_decode(text.substr(at));
}

}  // namespace lamina::text
