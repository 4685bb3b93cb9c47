// Checks a value against its key's declaration.
#include "config/key.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "core/dtype.h"
#include "core/lower_case.h"
#include "core/printable.h"
#include "core/suggest.h"

namespace lamina::config {
namespace {

std::string_view type_name(Type type) {
  switch (type) {
    case Type::boolean:
      return "boolean";
    case Type::integer:
      return "integer";
    case Type::number:
      return "number";
    case Type::string:
      return "string";
    case Type::list:
      return "list";
    case Type::table:
      return "table";
  }
  return "value";
}

std::string_view with_article(Type type) {
  switch (type) {
    case Type::boolean:
      return "true or false";
    case Type::integer:
      return "an integer";
    case Type::number:
      return "a number";
    case Type::string:
      return "a string";
    case Type::list:
      return "a list";
    case Type::table:
      return "a table";
  }
  return "a value";
}

// Returns "of at least 1 and less than 2", or "" without limits.
std::string limits_in_words(const Key& key) {
  std::string out;
  if (key.min) out = fmt::format("{} {}", key.min_excluded ? "greater than" : "at least", *key.min);
  if (key.max)
    out += fmt::format("{}{} {}", key.min ? " and " : "",
                       key.max_excluded ? "less than" : "at most", *key.max);
  return out;
}

std::string expectation(const Key& key, Type type) {
  if (type == Type::string && !key.choices.empty()) return join_choices(key.choices);
  std::string out(with_article(type));
  std::string limits = limits_in_words(key);
  if ((type == Type::integer || type == Type::number) && !limits.empty()) out += ", " + limits;
  if (type != Type::string && type == key.type && !key.choices.empty())
    out += ", or " + join_choices(key.choices);
  return out;
}

// Returns the choice for a mistyped one, or for the short name of an element type; "" if none is
// near.
std::string meant_choice(const std::string& typed, const std::vector<std::string>& choices) {
  const std::string name = lower_case(typed) == "fp32" ? "f32" : typed;  // of other programs
  if (const auto dtype = parse_dtype(name);
      dtype && std::ranges::find(choices, long_name(*dtype)) != choices.end())
    return std::string(long_name(*dtype));
  return nearest_name(typed, choices);
}

// Range of magnitudes that float32 represents with full precision, rounded inwards to short
// decimals.
constexpr double kLeastSize = 1.18e-38, kLargestSize = 3.40e38;

bool fits_float32(const Key& key, double value) {
  const double size = std::abs(value);
  return key.wide || size == 0 || (size >= kLeastSize && size <= kLargestSize);
}

// Returns whether float32 rounds a value to a limit that it may not have: 0.99999999999 to 1.
bool becomes_limit(const Key& key, double value) {
  const double rounded = static_cast<float>(value);
  return !key.wide && ((key.max && key.max_excluded && rounded >= *key.max) ||
                       (key.min && key.min_excluded && rounded <= *key.min));
}

// Returns the value as `type`, or nothing if it has another type or is outside the limits.
std::optional<Value> accept_scalar(const Key& key, Type type, const Value& value,
                                   std::string_view source) {
  switch (type) {
    case Type::boolean:
      if (value.get_if<bool>()) return value;
      return {};
    case Type::integer:
      if (auto* integer = value.get_if<std::int64_t>();
          integer && within_limits(key, static_cast<double>(*integer)))
        return value;
      return {};
    case Type::number: {
      double number;
      if (auto* integer = value.get_if<std::int64_t>())
        number = static_cast<double>(*integer);
      else if (auto* real = value.get_if<double>())
        number = *real;
      else
        return {};
      if (std::isnan(number) || !within_limits(key, number)) return {};
      // A key can be infinite only if it declares an infinite limit.
      if (std::isinf(number) && (number > 0 ? key.max : key.min) != number) return {};
      if (std::isfinite(number) && (!fits_float32(key, number) || becomes_limit(key, number)))
        return {};
      return Value(number == 0 ? 0.0 : number);
    }
    case Type::string: {
      const std::string* text = value.get_if<std::string>();
      std::string unread(source);
      if (!text && !source.empty()) text = &unread;
      if (!text) return {};
      if (key.choices.empty()) return Value(*text);
      for (const std::string& choice : key.choices)
        if (choice == *text) return Value(*text);
      return {};
    }
    case Type::list:
    case Type::table:
      return {};
  }
  return {};
}

ErrorText refusal(const Key& key, std::string_view name, Type type, const Value& value,
                  std::string_view source) {
  bool wrong_kind = !(type == Type::number && value.get_if<std::int64_t>()) &&
                    value.data.index() != static_cast<std::size_t>(type);
  std::string got =
      source.empty() || value.get_if<std::string>() ? to_toml(value) : std::string(source);
  constexpr std::size_t kMaxShown = 120;
  if (got.size() > kMaxShown) got = got.substr(0, kMaxShown) + "...";
  std::string expected = expectation(key, type);
  const double* number = value.get_if<double>();
  const bool may_be_infinite =
      (key.min && std::isinf(*key.min)) || (key.max && std::isinf(*key.max));
  if (number && !std::isfinite(*number) && type == Type::number && !may_be_infinite)
    expected.insert(expected.find("number"), "finite ");
  ErrorText text{"", fmt::format("'{}' must be {}, got {}", name, expected, got), {}};
  constexpr double kIntegers = 9223372036854775808.0;  // 2^63
  if (number && type == Type::integer && std::isfinite(*number) && std::abs(*number) >= kIntegers)
    text.what += *number > 0 ? ", which is more than 2^63-1" : ", which is less than -2^63";
  else if (wrong_kind)
    text.what += fmt::format(" ({})", kind_of(value));
  const bool is_within =
      number && type == Type::number && std::isfinite(*number) && within_limits(key, *number);
  if (is_within && fits_float32(key, *number))
    text.what +=
        fmt::format(", which is {} in float32", static_cast<double>(static_cast<float>(*number)));
  else if (is_within)
    text.what += fmt::format(", which is outside the range of float32; the {} magnitude is {:g}",
                             std::abs(*number) < 1 ? "least" : "largest",
                             std::abs(*number) < 1 ? kLeastSize : kLargestSize);
  if (auto* typed = value.get_if<std::string>(); typed && type == Type::string)
    if (std::string nearest = meant_choice(*typed, key.choices); !nearest.empty())
      text.notes.push_back(fmt::format("did you mean {}?", toml_quote(nearest)));
  return text;
}

// Checks a table in a list, member by member.
std::variant<Value, ErrorText> check_table(const Key& key, const std::string& name,
                                           const Value& value) {
  const Members* members = value.get_if<Members>();
  if (!members) return refusal(key, name, Type::table, value, "");
  std::vector<std::string> known;
  for (const Key& member : key.members) known.push_back(member.name);
  Members out;
  for (const auto& [member, given] : *members) {
    const auto declared = std::ranges::find(key.members, member, &Key::name);
    if (declared == key.members.end()) {
      ErrorText text{"", fmt::format("unknown key '{}' in '{}'", printable(member), name), {}};
      const std::string nearest = nearest_name(member, known);
      text.notes.push_back(nearest.empty()
                               ? fmt::format("expected one of {}", fmt::join(known, ", "))
                               : fmt::format("did you mean '{}'?", nearest));
      return text;
    }
    auto checked = check_value(*declared, fmt::format("{}.{}", name, member), given, "");
    if (auto* wrong = std::get_if<ErrorText>(&checked)) return std::move(*wrong);
    out.emplace_back(member, std::get<Value>(std::move(checked)));
  }
  for (const Key& member : key.members)
    if (member.required &&
        std::ranges::find(out, member.name, &Members::value_type::first) == out.end())
      return ErrorText{
          "", fmt::format("missing key '{}' in '{}'", member.name, name), {member.doc}};
  return Value(std::move(out));
}

}  // namespace

bool within_limits(const Key& key, double value) {
  if (key.min && (key.min_excluded ? value <= *key.min : value < *key.min)) return false;
  if (key.max && (key.max_excluded ? value >= *key.max : value > *key.max)) return false;
  return true;
}

std::string join_choices(const std::vector<std::string>& choices) {
  std::string out;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (i > 0) out += i + 1 == choices.size() ? " or " : ", ";
    out += toml_quote(choices[i]);
  }
  return out;
}

std::string type_text(const Key& key) {
  if (key.type == Type::list) return fmt::format("list of {}s", type_name(key.element));
  return std::string(type_name(key.type));
}

std::string limits_text(const Key& key) {
  const bool is_text = key.type == Type::string || key.type == Type::list;
  if (is_text && !key.choices.empty()) return join_choices(key.choices);
  if (key.min && key.max)
    return fmt::format("{} {} value {} {}", *key.min,
                       key.min_excluded ? "<" : "<=", key.max_excluded ? "<" : "<=", *key.max);
  if (key.min) return fmt::format("{} {}", key.min_excluded ? ">" : ">=", *key.min);
  if (key.max) return fmt::format("{} {}", key.max_excluded ? "<" : "<=", *key.max);
  return "";
}

std::string expected_text(const Key& key) {
  if (key.type != Type::list) return expectation(key, key.type);
  const std::string limits = limits_in_words(key);
  return fmt::format("a {}{}", type_text(key), limits.empty() ? "" : ", each " + limits);
}

std::variant<Value, ErrorText> check_value(const Key& key, std::string_view name,
                                           const Value& value, std::string_view source) {
  if (key.type != Type::list) {
    if (auto accepted = accept_scalar(key, key.type, value, source)) return *accepted;
    return refusal(key, name, key.type, value, source);
  }
  const List* list = value.get_if<List>();
  List single;
  if (!list) single.push_back(value), list = &single;
  List out;
  for (std::size_t i = 0; i < list->size(); ++i) {
    const Value& element = (*list)[i];
    std::string_view text = list == &single ? source : "";
    if (key.element == Type::table) {
      auto checked = check_table(key, fmt::format("{}[{}]", name, i), element);
      if (std::holds_alternative<ErrorText>(checked)) return checked;
      out.push_back(std::get<Value>(std::move(checked)));
      continue;
    }
    auto accepted = accept_scalar(key, key.element, element, text);
    if (!accepted) {
      std::string where = list == &single ? std::string(name) : fmt::format("{}[{}]", name, i);
      return refusal(key, where, key.element, element, text);
    }
    out.push_back(std::move(*accepted));
  }
  return Value(std::move(out));
}

}  // namespace lamina::config
