#include "core/json.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/json_table.h"
#include "core/printable.h"
#include "core/suggest.h"

namespace lamina {

using json_table::JsonNode;
using json_table::string_of;

std::string_view infinite_number(double value) {
  LAMINA_ASSERT(!std::isfinite(value));
  return std::isnan(value) ? "NaN" : value > 0 ? "Infinity" : "-Infinity";
}

JsonValue JsonDocument::root() const { return {data_.get(), root_}; }

JsonDocument JsonDocument::part(const JsonValue& value) const {
  LAMINA_ASSERT(value.data_ == data_.get());
  return {data_, value.node_};
}

JsonKind JsonValue::kind() const {
  LAMINA_ASSERT(data_ != nullptr);
  return data_->nodes[node_].kind;
}

std::uint32_t JsonValue::next() const { return data_->next(node_); }
std::string_view JsonValue::string() const { return string_of(data_->nodes[node_]); }

bool JsonValue::as_bool() const {
  if (kind() != JsonKind::boolean) wrong_kind("true or false");
  return data_->nodes[node_].payload != 0;
}

std::int64_t JsonValue::as_int64() const {
  if (kind() == JsonKind::unsigned_integer) wrong_kind("an integer of at most 2^63-1");
  if (kind() != JsonKind::integer) wrong_kind("an integer");
  return static_cast<std::int64_t>(data_->nodes[node_].payload);
}

std::uint64_t JsonValue::as_uint64() const {
  if (!is_integer() || (kind() == JsonKind::integer && as_int64() < 0))
    wrong_kind("an integer of at least 0");
  return data_->nodes[node_].payload;
}

double JsonValue::as_double() const {
  const JsonNode& node = data_->nodes[node_];
  if (kind() == JsonKind::real) return std::bit_cast<double>(node.payload);
  if (kind() == JsonKind::integer)
    return static_cast<double>(static_cast<std::int64_t>(node.payload));
  if (kind() != JsonKind::unsigned_integer) wrong_kind("a number");
  return static_cast<double>(node.payload);
}

std::string_view JsonValue::number_text() const {
  if (!is_number()) wrong_kind("a number");
  const std::string_view rest = std::string_view(data_->text).substr(data_->nodes[node_].offset);
  return rest.substr(0, rest.find_first_not_of("+-.0123456789eE"));
}

std::string_view JsonValue::integer_digits() const {
  if (kind() != JsonKind::real) return {};
  const std::string_view text = number_text();
  return text.find_first_not_of("-0123456789") == text.npos ? text : std::string_view();
}

std::string_view JsonValue::as_string() const {
  if (kind() != JsonKind::string) wrong_kind("a string");
  return string();
}

std::size_t JsonValue::size() const {
  if (kind() < JsonKind::array) wrong_kind("an array or an object");
  return data_->nodes[node_].count;
}

JsonValue::Elements JsonValue::elements() const {
  if (kind() != JsonKind::array) wrong_kind("an array");
  return {JsonValue(data_, node_ + 1), JsonValue(data_, next())};
}

JsonValue::Members JsonValue::members() const {
  if (kind() != JsonKind::object) wrong_kind("an object");
  return {JsonValue(data_, node_ + 1), JsonValue(data_, next())};
}

JsonValue JsonValue::find(std::string_view key) const {
  for (const auto& [name, value] : members())
    if (name == key) return value;
  return {};
}

JsonValue JsonValue::at(std::string_view key) const {
  if (JsonValue value = find(key)) return value;
  std::vector<std::string> names;
  for (const auto& [name, value] : members()) names.push_back(printable(name));
  std::vector<std::string> notes;
  if (const std::string near = nearest_name(key, names); !near.empty())
    notes.push_back(fmt::format("did you mean '{}', which is present?", near));
  fail(fmt::format("lacks the key '{}'", key), std::move(notes));
}

JsonValue JsonValue::element(std::size_t n) const {
  if (kind() != JsonKind::array) wrong_kind("an array");
  if (n >= size())
    fail(fmt::format("must have at least {} element{}, got {}", n + 1, n == 0 ? "" : "s",
                     describe()));
  auto at = elements().begin();
  for (std::size_t i = 0; i < n; ++i) ++at;
  return *at;
}

std::string JsonValue::path() const {
  // Walks down from the root into the child that contains this node.
  std::string path;
  for (std::uint32_t at = 0; at != node_;) {
    const bool object = data_->nodes[at].kind == JsonKind::object;
    std::uint32_t child = at + 1;
    for (std::size_t i = 0;; ++i) {
      const std::uint32_t value = object ? child + 1 : child;
      if (node_ < data_->next(value)) {
        if (object)
          path += fmt::format("{}{}", path.empty() ? "" : ".",
                              printable(string_of(data_->nodes[child]), 60));
        else
          path += fmt::format("[{}]", i);
        at = value;
        break;
      }
      child = data_->next(value);
    }
  }
  return path;
}

std::string JsonValue::where() const { return data_->where(data_->nodes[node_].offset); }

std::string JsonValue::describe() const {
  switch (kind()) {
    case JsonKind::null:
      return "null";
    case JsonKind::boolean:
      return as_bool() ? "true" : "false";
    case JsonKind::integer:
      return fmt::format("{}", as_int64());
    case JsonKind::unsigned_integer:
      return fmt::format("{}", as_uint64());
    case JsonKind::real: {
      const double value = as_double();
      if (!std::isfinite(value)) return std::string(infinite_number(value));
      return value == std::floor(value) && std::abs(value) < 1e15 ? fmt::format("{:.1f}", value)
                                                                  : fmt::format("{}", value);
    }
    case JsonKind::string:
      return fmt::format("\"{}\"", printable(as_string(), 60));
    case JsonKind::array:
      return fmt::format("an array of {}", size());
    case JsonKind::object:
      break;
  }
  return fmt::format("an object with {} keys", size());
}

void JsonValue::fail(std::string what, std::vector<std::string> notes) const {
  const std::string name = path();
  throw UserError(
      data_->options.code,
      {where(), (name.empty() ? "the document " : "'" + name + "' ") + what, std::move(notes)});
}

void JsonValue::wrong_kind(std::string_view expected) const {
  fail(fmt::format("must be {}, got {}", expected, describe()));
}

}  // namespace lamina
