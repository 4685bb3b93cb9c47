#include "jinja/values/characters.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>

namespace lamina::jinja {
namespace {

// Characters whose upper or title case has several characters (Unicode, SpecialCasing.txt, the
// unconditional mappings).
struct SpecialCase {
  Char character;
  std::array<Char, 3> upper, title;
};

// clang-format off
constexpr SpecialCase kSpecialCases[] = {
    {0xdf, {0x53, 0x53, 0}, {0x53, 0x73, 0}}, {0x149, {0x2bc, 0x4e, 0}, {0x2bc, 0x4e, 0}},
    {0x1f0, {0x4a, 0x30c, 0}, {0x4a, 0x30c, 0}},
    {0x390, {0x399, 0x308, 0x301}, {0x399, 0x308, 0x301}},
    {0x3b0, {0x3a5, 0x308, 0x301}, {0x3a5, 0x308, 0x301}},
    {0x587, {0x535, 0x552, 0}, {0x535, 0x582, 0}}, {0x1e96, {0x48, 0x331, 0}, {0x48, 0x331, 0}},
    {0x1e97, {0x54, 0x308, 0}, {0x54, 0x308, 0}}, {0x1e98, {0x57, 0x30a, 0}, {0x57, 0x30a, 0}},
    {0x1e99, {0x59, 0x30a, 0}, {0x59, 0x30a, 0}}, {0x1e9a, {0x41, 0x2be, 0}, {0x41, 0x2be, 0}},
    {0x1f50, {0x3a5, 0x313, 0}, {0x3a5, 0x313, 0}},
    {0x1f52, {0x3a5, 0x313, 0x300}, {0x3a5, 0x313, 0x300}},
    {0x1f54, {0x3a5, 0x313, 0x301}, {0x3a5, 0x313, 0x301}},
    {0x1f56, {0x3a5, 0x313, 0x342}, {0x3a5, 0x313, 0x342}},
    {0x1f80, {0x1f08, 0x399, 0}, {0x1f88, 0, 0}}, {0x1f81, {0x1f09, 0x399, 0}, {0x1f89, 0, 0}},
    {0x1f82, {0x1f0a, 0x399, 0}, {0x1f8a, 0, 0}}, {0x1f83, {0x1f0b, 0x399, 0}, {0x1f8b, 0, 0}},
    {0x1f84, {0x1f0c, 0x399, 0}, {0x1f8c, 0, 0}}, {0x1f85, {0x1f0d, 0x399, 0}, {0x1f8d, 0, 0}},
    {0x1f86, {0x1f0e, 0x399, 0}, {0x1f8e, 0, 0}}, {0x1f87, {0x1f0f, 0x399, 0}, {0x1f8f, 0, 0}},
    {0x1f88, {0x1f08, 0x399, 0}, {0x1f88, 0, 0}}, {0x1f89, {0x1f09, 0x399, 0}, {0x1f89, 0, 0}},
    {0x1f8a, {0x1f0a, 0x399, 0}, {0x1f8a, 0, 0}}, {0x1f8b, {0x1f0b, 0x399, 0}, {0x1f8b, 0, 0}},
    {0x1f8c, {0x1f0c, 0x399, 0}, {0x1f8c, 0, 0}}, {0x1f8d, {0x1f0d, 0x399, 0}, {0x1f8d, 0, 0}},
    {0x1f8e, {0x1f0e, 0x399, 0}, {0x1f8e, 0, 0}}, {0x1f8f, {0x1f0f, 0x399, 0}, {0x1f8f, 0, 0}},
    {0x1f90, {0x1f28, 0x399, 0}, {0x1f98, 0, 0}}, {0x1f91, {0x1f29, 0x399, 0}, {0x1f99, 0, 0}},
    {0x1f92, {0x1f2a, 0x399, 0}, {0x1f9a, 0, 0}}, {0x1f93, {0x1f2b, 0x399, 0}, {0x1f9b, 0, 0}},
    {0x1f94, {0x1f2c, 0x399, 0}, {0x1f9c, 0, 0}}, {0x1f95, {0x1f2d, 0x399, 0}, {0x1f9d, 0, 0}},
    {0x1f96, {0x1f2e, 0x399, 0}, {0x1f9e, 0, 0}}, {0x1f97, {0x1f2f, 0x399, 0}, {0x1f9f, 0, 0}},
    {0x1f98, {0x1f28, 0x399, 0}, {0x1f98, 0, 0}}, {0x1f99, {0x1f29, 0x399, 0}, {0x1f99, 0, 0}},
    {0x1f9a, {0x1f2a, 0x399, 0}, {0x1f9a, 0, 0}}, {0x1f9b, {0x1f2b, 0x399, 0}, {0x1f9b, 0, 0}},
    {0x1f9c, {0x1f2c, 0x399, 0}, {0x1f9c, 0, 0}}, {0x1f9d, {0x1f2d, 0x399, 0}, {0x1f9d, 0, 0}},
    {0x1f9e, {0x1f2e, 0x399, 0}, {0x1f9e, 0, 0}}, {0x1f9f, {0x1f2f, 0x399, 0}, {0x1f9f, 0, 0}},
    {0x1fa0, {0x1f68, 0x399, 0}, {0x1fa8, 0, 0}}, {0x1fa1, {0x1f69, 0x399, 0}, {0x1fa9, 0, 0}},
    {0x1fa2, {0x1f6a, 0x399, 0}, {0x1faa, 0, 0}}, {0x1fa3, {0x1f6b, 0x399, 0}, {0x1fab, 0, 0}},
    {0x1fa4, {0x1f6c, 0x399, 0}, {0x1fac, 0, 0}}, {0x1fa5, {0x1f6d, 0x399, 0}, {0x1fad, 0, 0}},
    {0x1fa6, {0x1f6e, 0x399, 0}, {0x1fae, 0, 0}}, {0x1fa7, {0x1f6f, 0x399, 0}, {0x1faf, 0, 0}},
    {0x1fa8, {0x1f68, 0x399, 0}, {0x1fa8, 0, 0}}, {0x1fa9, {0x1f69, 0x399, 0}, {0x1fa9, 0, 0}},
    {0x1faa, {0x1f6a, 0x399, 0}, {0x1faa, 0, 0}}, {0x1fab, {0x1f6b, 0x399, 0}, {0x1fab, 0, 0}},
    {0x1fac, {0x1f6c, 0x399, 0}, {0x1fac, 0, 0}}, {0x1fad, {0x1f6d, 0x399, 0}, {0x1fad, 0, 0}},
    {0x1fae, {0x1f6e, 0x399, 0}, {0x1fae, 0, 0}}, {0x1faf, {0x1f6f, 0x399, 0}, {0x1faf, 0, 0}},
    {0x1fb2, {0x1fba, 0x399, 0}, {0x1fba, 0x345, 0}}, {0x1fb3, {0x391, 0x399, 0}, {0x1fbc, 0, 0}},
    {0x1fb4, {0x386, 0x399, 0}, {0x386, 0x345, 0}}, {0x1fb6, {0x391, 0x342, 0}, {0x391, 0x342, 0}},
    {0x1fb7, {0x391, 0x342, 0x399}, {0x391, 0x342, 0x345}},
    {0x1fbc, {0x391, 0x399, 0}, {0x1fbc, 0, 0}}, {0x1fc2, {0x1fca, 0x399, 0}, {0x1fca, 0x345, 0}},
    {0x1fc3, {0x397, 0x399, 0}, {0x1fcc, 0, 0}}, {0x1fc4, {0x389, 0x399, 0}, {0x389, 0x345, 0}},
    {0x1fc6, {0x397, 0x342, 0}, {0x397, 0x342, 0}},
    {0x1fc7, {0x397, 0x342, 0x399}, {0x397, 0x342, 0x345}},
    {0x1fcc, {0x397, 0x399, 0}, {0x1fcc, 0, 0}},
    {0x1fd2, {0x399, 0x308, 0x300}, {0x399, 0x308, 0x300}},
    {0x1fd3, {0x399, 0x308, 0x301}, {0x399, 0x308, 0x301}},
    {0x1fd6, {0x399, 0x342, 0}, {0x399, 0x342, 0}},
    {0x1fd7, {0x399, 0x308, 0x342}, {0x399, 0x308, 0x342}},
    {0x1fe2, {0x3a5, 0x308, 0x300}, {0x3a5, 0x308, 0x300}},
    {0x1fe3, {0x3a5, 0x308, 0x301}, {0x3a5, 0x308, 0x301}},
    {0x1fe4, {0x3a1, 0x313, 0}, {0x3a1, 0x313, 0}}, {0x1fe6, {0x3a5, 0x342, 0}, {0x3a5, 0x342, 0}},
    {0x1fe7, {0x3a5, 0x308, 0x342}, {0x3a5, 0x308, 0x342}},
    {0x1ff2, {0x1ffa, 0x399, 0}, {0x1ffa, 0x345, 0}}, {0x1ff3, {0x3a9, 0x399, 0}, {0x1ffc, 0, 0}},
    {0x1ff4, {0x38f, 0x399, 0}, {0x38f, 0x345, 0}}, {0x1ff6, {0x3a9, 0x342, 0}, {0x3a9, 0x342, 0}},
    {0x1ff7, {0x3a9, 0x342, 0x399}, {0x3a9, 0x342, 0x345}},
    {0x1ffc, {0x3a9, 0x399, 0}, {0x1ffc, 0, 0}}, {0xfb00, {0x46, 0x46, 0}, {0x46, 0x66, 0}},
    {0xfb01, {0x46, 0x49, 0}, {0x46, 0x69, 0}}, {0xfb02, {0x46, 0x4c, 0}, {0x46, 0x6c, 0}},
    {0xfb03, {0x46, 0x46, 0x49}, {0x46, 0x66, 0x69}},
    {0xfb04, {0x46, 0x46, 0x4c}, {0x46, 0x66, 0x6c}}, {0xfb05, {0x53, 0x54, 0}, {0x53, 0x74, 0}},
    {0xfb06, {0x53, 0x54, 0}, {0x53, 0x74, 0}}, {0xfb13, {0x544, 0x546, 0}, {0x544, 0x576, 0}},
    {0xfb14, {0x544, 0x535, 0}, {0x544, 0x565, 0}}, {0xfb15, {0x544, 0x53b, 0}, {0x544, 0x56b, 0}},
    {0xfb16, {0x54e, 0x546, 0}, {0x54e, 0x576, 0}}, {0xfb17, {0x544, 0x53d, 0}, {0x544, 0x56d, 0}},
};
// clang-format on

const SpecialCase* special_case(Char c) {
  const auto* end = std::end(kSpecialCases);
  const auto* at =
      std::lower_bound(std::begin(kSpecialCases), end, c,
                       [](const SpecialCase& s, Char value) { return s.character < value; });
  return at != end && at->character == c ? at : nullptr;
}

void append(Text& out, const std::array<Char, 3>& characters, Char mark) {
  for (Char c : characters)
    if (c) out += c | mark;
}

utf8proc_int32_t signed_code(Char c) { return static_cast<utf8proc_int32_t>(code_of(c)); }

utf8proc_category_t category(Char c) { return utf8proc_category(signed_code(c)); }

// Characters that do not affect words: apostrophes, accents and similar (Unicode,
// "Case_Ignorable").
bool is_case_ignorable(Char c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return contains(
          U"'.:\u00b7\u0387\u055f\u05f4\u2018\u2019\u2024\u2027\ufe13\ufe52\ufe55"
          U"\uff07\uff0e\uff1a",
          c);
  }
}

// A sigma that ends a word: a cased letter is before it and none after it.
bool is_final_sigma(TextView text, std::size_t at) {
  std::size_t before = at;
  while (before > 0 && is_case_ignorable(text[before - 1])) --before;
  if (before == 0 || !is_cased(text[before - 1])) return false;
  std::size_t after = at + 1;
  while (after < text.size() && is_case_ignorable(text[after])) ++after;
  return after == text.size() || !is_cased(text[after]);
}

}  // namespace

bool is_space(Char c) {
  const Char code = code_of(c);
  if (code < 0x80) return (code >= 9 && code <= 13) || (code >= 28 && code <= 32);
  return code == 0x85 || category(c) == UTF8PROC_CATEGORY_ZS ||
         category(c) == UTF8PROC_CATEGORY_ZL || category(c) == UTF8PROC_CATEGORY_ZP;
}

bool is_line_end(Char c) {
  const Char code = code_of(c);
  return (code >= 10 && code <= 13) || (code >= 28 && code <= 30) || code == 0x85 ||
         code == 0x2028 || code == 0x2029;
}

bool is_printable(Char c) {
  if (code_of(c) == ' ') return true;
  switch (category(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    default:
      return true;
  }
}

bool is_letter(Char c) {
  const utf8proc_category_t of = category(c);
  return of >= UTF8PROC_CATEGORY_LU && of <= UTF8PROC_CATEGORY_LO;
}
bool is_decimal(Char c) { return category(c) == UTF8PROC_CATEGORY_ND; }
int decimal_of(Char c) {
  if (!is_decimal(c)) return -1;
  Char zero = code_of(c);  // decimals come in rows from 0 to 9
  while (is_decimal(zero - 1)) --zero;
  return static_cast<int>(code_of(c) - zero) % 10;
}
bool is_digit(Char c) {
  const Char code = code_of(c);
  return is_decimal(c) || code == 0xb2 || code == 0xb3 || code == 0xb9 || code == 0x2070 ||
         (code >= 0x2074 && code <= 0x2079) || (code >= 0x2080 && code <= 0x2089) ||
         (code >= 0x2460 && code <= 0x2468);
}
bool is_numeric(Char c) {
  return is_decimal(c) || category(c) == UTF8PROC_CATEGORY_NL ||
         category(c) == UTF8PROC_CATEGORY_NO;
}

bool is_upper(Char c) {
  return category(c) == UTF8PROC_CATEGORY_LU || utf8proc_isupper(signed_code(c));
}
bool is_lower(Char c) {
  return category(c) == UTF8PROC_CATEGORY_LL || utf8proc_islower(signed_code(c));
}
bool is_cased(Char c) { return is_upper(c) || is_lower(c) || category(c) == UTF8PROC_CATEGORY_LT; }

bool is_word_character(Char c) { return is_letter(c) || is_numeric(c) || code_of(c) == '_'; }
bool begins_name(Char c) {
  return is_letter(c) || category(c) == UTF8PROC_CATEGORY_NL || code_of(c) == '_';
}
bool continues_name(Char c) {
  return begins_name(c) || is_decimal(c) || category(c) == UTF8PROC_CATEGORY_MN ||
         category(c) == UTF8PROC_CATEGORY_MC || category(c) == UTF8PROC_CATEGORY_PC;
}

void append_upper(Text& out, Char c) {
  if (const SpecialCase* special = special_case(code_of(c)))
    return append(out, special->upper, c & kGiven);
  out.push_back(static_cast<Char>(utf8proc_toupper(signed_code(c))) | (c & kGiven));
}

void append_title(Text& out, Char c) {
  if (const SpecialCase* special = special_case(code_of(c)))
    return append(out, special->title, c & kGiven);
  out.push_back(static_cast<Char>(utf8proc_totitle(signed_code(c))) | (c & kGiven));
}

void append_folded(Text& out, Char c) {
  utf8proc_int32_t folded[8];
  const utf8proc_ssize_t count =
      utf8proc_decompose_char(signed_code(c), folded, 8, UTF8PROC_CASEFOLD, nullptr);
  for (utf8proc_ssize_t i = 0; i < std::min<utf8proc_ssize_t>(count, 8); ++i)
    out.push_back(static_cast<Char>(folded[i]) | (c & kGiven));
}

void append_lower(Text& out, TextView text, std::size_t at) {
  const Char c = text[at], mark = c & kGiven;
  if (code_of(c) == 0x130) {  // a capital i with its dot
    out += Char{'i'} | mark;
    out += Char{0x307} | mark;
  } else if (code_of(c) == 0x3a3) {
    out += (is_final_sigma(text, at) ? Char{0x3c2} : Char{0x3c3}) | mark;
  } else {
    out += static_cast<Char>(utf8proc_tolower(signed_code(c))) | mark;
  }
}

}  // namespace lamina::jinja
