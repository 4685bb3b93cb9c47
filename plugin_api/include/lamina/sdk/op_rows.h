// The rows of ops.def as constants, and a parser of their attributes. All at compile time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lamina/sdk/error.h"

#pragma GCC visibility push(hidden)
namespace lamina::sdk {

// Indices into ops.def; the rows have the op numbers.
enum class Op : std::uint32_t {
#define LAMINA_OP(id, name, revision, since, inputs, outputs, attributes, doc) name,
#include "lamina/ops.def"
};

struct OpRow {
  std::uint32_t id, revision, since;
  std::string_view name, inputs, outputs, attributes;
};

inline constexpr OpRow kOpRows[] = {
#define LAMINA_OP(id, name, revision, since, inputs, outputs, attributes, doc) \
  {id, revision, since, #name, inputs, outputs, attributes},
#include "lamina/ops.def"
};

constexpr const OpRow& row_of(Op op) { return kOpRows[static_cast<std::uint32_t>(op)]; }

// Takes the first word off the front of `text`.
constexpr std::string_view take_word(std::string_view& text) {
  std::size_t end = text.find(' ');
  if (end == std::string_view::npos) end = text.size();
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(end == text.size() ? end : end + 1);
  return word;
}

constexpr std::int64_t parse_integer(std::string_view text) {
  const bool negative = text.starts_with('-');
  std::int64_t value = 0;
  for (char c : text.substr(negative ? 1 : 0)) {
    if (c < '0' || c > '9') does_not_compile("ops.def: not an integer");
    value = value * 10 + (c - '0');
  }
  return negative ? -value : value;
}

// Returns the minor of a word: 2 for "bias?@2", 0 without a mark.
constexpr std::uint32_t since_of(std::string_view word) {
  const std::size_t at = word.find('@');
  if (at == std::string_view::npos) return 0;
  return static_cast<std::uint32_t>(parse_integer(word.substr(at + 1)));
}

// Counts the words that a host of `minor` knows.
constexpr std::uint32_t count_words(std::string_view text, std::uint32_t minor = UINT32_MAX) {
  std::uint32_t count = 0;
  while (!text.empty()) count += since_of(take_word(text)) <= minor ? 1 : 0;
  return count;
}

// Returns word i, from 0.
constexpr std::string_view word_at(std::string_view text, std::size_t i) {
  while (i-- > 0) take_word(text);
  return take_word(text);
}

// Parses "1e-6": digits and a power of ten that a double represents exactly, so that one division
// or product rounds correctly.
constexpr double parse_number(std::string_view text) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  std::int64_t digits = 0, exponent = 0;
  bool fraction = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == 'e') {
      exponent += parse_integer(text.substr(i + 1));
      break;
    }
    if (text[i] == '.') {
      fraction = true;
      continue;
    }
    digits = digits * 10 + parse_integer(text.substr(i, 1));
    exponent -= fraction ? 1 : 0;
  }
  if (digits > std::int64_t{1} << 53 || exponent < -22 || exponent > 22)
    does_not_compile("ops.def: a number of too many digits");
  double power = 1;
  for (std::int64_t e = exponent < 0 ? -exponent : exponent; e > 0; --e) power *= 10;
  const double value = static_cast<double>(digits);
  return (negative ? -1 : 1) * (exponent < 0 ? value / power : value * power);
}

// An attribute of a row.
struct AttrRow {
  std::uint32_t key = 0;  // its position, from 1
  std::uint32_t since = 0;
  std::uint32_t kind = 0;     // LAMINA_KIND_*
  bool has_fallback = false;  // always true for lists: the empty list
  std::string_view fallback;
};

constexpr std::uint32_t attr_kind(std::string_view letters) {
  return letters == "i" || letters == "b" ? LAMINA_KIND_INT
         : letters == "f"                 ? LAMINA_KIND_FLOAT
         : letters == "s"                 ? LAMINA_KIND_STRING
         : letters == "il"                ? LAMINA_KIND_INT_LIST
                                          : LAMINA_KIND_FLOAT_LIST;
}

// Returns the attribute of that name; key 0 if there is none.
constexpr AttrRow find_attr(std::string_view attributes, std::string_view name) {
  for (std::uint32_t key = 1; !attributes.empty(); ++key) {
    const std::string_view word = take_word(attributes);
    if (word.substr(0, word.find(':')) != name) continue;
    const std::string_view rest = word.substr(name.size() + 1, word.find('@') - name.size() - 1);
    const std::size_t equals = rest.find('=');
    AttrRow row{key, since_of(word), attr_kind(rest.substr(0, equals)), false, {}};
    row.has_fallback = equals != std::string_view::npos || row.kind == LAMINA_KIND_INT_LIST ||
                       row.kind == LAMINA_KIND_FLOAT_LIST;
    if (equals != std::string_view::npos) row.fallback = rest.substr(equals + 1);
    return row;
  }
  return {};
}

}  // namespace lamina::sdk
#pragma GCC visibility pop
