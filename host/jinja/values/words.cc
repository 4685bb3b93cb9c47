#include "jinja/values/words.h"

#include <algorithm>

#include "jinja/values/characters.h"

namespace lamina::jinja {
namespace {

bool is_ascii_digit(Char c, int base = 10) {
  if (base <= 10) return c >= '0' && c < Char{'0'} + static_cast<Char>(base);
  return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
}

// The end of the digits from `at` on, which single underscores may separate; `at` if there are
// none.
std::size_t digits_end(TextView source, std::size_t at, int base = 10) {
  const std::size_t begin = at;
  while (at < source.size()) {
    if (is_ascii_digit(source[at], base))
      ++at;
    else if (source[at] == '_' && at > begin && at + 1 < source.size() &&
             is_ascii_digit(source[at + 1], base))
      ++at;
    else
      break;
  }
  return at;
}

std::string without_underscores(TextView digits) {
  std::string out;
  for (const Char c : digits)
    if (c != '_') out += static_cast<char>(c);
  return out;
}

// 1.5, 1e3, 2.5e-3
Word read_real(TextView source, std::size_t begin) {
  if (begin > 0 && source[begin - 1] == '.') return {};  // "list.0.1" has no number 0.1
  const std::size_t whole = digits_end(source, begin);
  if (whole == begin) return {};
  std::size_t end = whole;
  if (end < source.size() && source[end] == '.') {
    const std::size_t fraction = digits_end(source, end + 1);
    if (fraction > end + 1) end = fraction;
  }
  if (end < source.size() && (source[end] | 0x20) == 'e') {
    std::size_t exponent = end + 1;
    if (exponent < source.size() && (source[exponent] == '+' || source[exponent] == '-'))
      ++exponent;
    const std::size_t exponent_end = digits_end(source, exponent);
    if (exponent_end > exponent) end = exponent_end;
  }
  if (end == whole) return {};
  return {TokenType::real, end - begin, {}, without_underscores(source.substr(begin, end - begin))};
}

// 12, 1_000, 0x1f, 0b101, 0o17
Word read_integer(TextView source, std::size_t begin) {
  if (!is_ascii_digit(source[begin])) return {};
  if (source[begin] == '0' && begin + 1 < source.size()) {
    const Char letter = source[begin + 1] | 0x20;
    const int base = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    std::size_t first = begin + 2;
    if (base && first < source.size() && source[first] == '_') ++first;
    if (const std::size_t end = base ? digits_end(source, first, base) : 0; end > first)
      return {TokenType::integer,
              end - begin,
              {},
              without_underscores(source.substr(begin, end - begin))};
  }
  std::size_t end = digits_end(source, begin);
  if (source[begin] == '0')  // a number that is not 0 does not begin with 0
    end = digits_end(source, begin, 1);
  return {
      TokenType::integer, end - begin, {}, without_underscores(source.substr(begin, end - begin))};
}

Word read_name(TextView source, std::size_t begin) {
  if (!begins_name(source[begin])) return {};
  std::size_t end = begin + 1;
  while (end < source.size() && continues_name(source[end])) ++end;
  return {TokenType::name, end - begin, {}, to_utf8(source.substr(begin, end - begin))};
}

// The character of `count` hexadecimal (or up to `count` octal) digits; 0 if they are invalid.
std::size_t read_code(TextView digits, std::size_t count, int base, Char& code) {
  code = 0;
  std::size_t used = 0;
  for (; used < count && used < digits.size() && is_ascii_digit(digits[used], base); ++used) {
    const Char c = digits[used];
    code = code * static_cast<Char>(base) + (c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
  }
  return used;
}

// Appends the character of the escape after the backslash at `at`; returns the number of source
// characters after the backslash.
std::size_t unescape(TextView source, std::size_t at, Text& out) {
  constexpr std::u32string_view kLetters = U"abfnrtv\\'\"", kMeanings = U"\a\b\f\n\r\t\v\\'\"";
  const TextView rest = source.substr(at + 1);
  const Char c = rest[0];
  if (const std::size_t known = kLetters.find(c); known != kLetters.npos) {
    out += kMeanings[known];
    return 1;
  }
  if (c == '\n') return 1;
  Char code = 0;
  if (is_ascii_digit(c, 8)) {
    const std::size_t used = read_code(rest, 3, 8, code);
    out += code;
    return used;
  }
  const auto refuse = [at](std::string message) {
    throw SyntaxFailure{static_cast<Position>(at), std::move(message)};
  };
  if (c == 'N')
    refuse("'\\N' names a character; write the character itself, or its code as '\\uXXXX'");
  const std::size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
  if (digits == 0) {
    out += Char{'\\'};
    return 0;
  }
  if (read_code(rest.substr(1), digits, 16, code) < digits)
    refuse(fmt::format("'\\{}' needs {} hexadecimal digits", static_cast<char>(c), digits));
  if (code > 0x10ffff) refuse(fmt::format("there is no character {:x}", unsigned{code}));
  out += character_of(code);
  return 1 + digits;
}

Word read_string(TextView source, std::size_t begin) {
  const Char quote = source[begin];
  if (quote != '\'' && quote != '"') return {};
  Word word{TokenType::string, 0, {}, {}};
  for (std::size_t at = begin + 1; at < source.size();) {
    if (source[at] == quote) {
      word.length = at + 1 - begin;
      return word;
    }
    if (source[at] == '\\' && at + 1 < source.size())
      at += 1 + unescape(source, at, word.text);
    else
      word.text += source[at++];
  }
  return {};  // unterminated
}

Word read_operator(TextView source, std::size_t at) {
  for (const std::u32string_view two : {U"**", U"//", U"==", U"!=", U">=", U"<="})
    if (source.substr(at, 2) == two) return {TokenType::op, 2, {}, to_utf8(two)};
  constexpr std::u32string_view kOne = U"+-*/%~[](){}<>=.:|,;";
  if (kOne.find(source[at]) == kOne.npos) return {};
  return {TokenType::op, 1, {}, to_utf8(source.substr(at, 1))};
}

}  // namespace

Word read_token_word(TextView source, std::size_t at) {
  for (const auto read : {read_real, read_integer, read_name, read_string, read_operator})
    if (Word word = read(source, at); word.length) return word;
  return {};
}

}  // namespace lamina::jinja
