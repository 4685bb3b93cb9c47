// Prints values, and looks them up by key.
#include "config/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>

#include "core/error.h"
#include "core/json.h"
#include "core/json_writer.h"

namespace lamina::config {
namespace {

constexpr std::string_view kToml = " = ", kJson = ": ";

// `assign` separates the name and the value of a member.
std::string text_of(const Value& value, std::string_view assign) {
  if (auto* flag = value.get_if<bool>()) return *flag ? "true" : "false";
  if (auto* integer = value.get_if<std::int64_t>()) return fmt::format("{}", *integer);
  if (auto* number = value.get_if<double>()) {
    if (std::isfinite(*number)) return json_number(*number);
    return assign == kJson ? std::string(infinite_number(*number)) : fmt::format("{}", *number);
  }
  if (auto* text = value.get_if<std::string>()) return toml_quote(*text);
  if (auto* members = value.get_if<Members>()) {
    std::string out = "{";
    for (const auto& [name, member] : *members)
      out +=
          fmt::format("{}{}{}{}", out.size() > 1 ? ", " : "",
                      assign == kJson ? json_quote(name) : name, assign, text_of(member, assign));
    return out + "}";
  }
  std::string out = "[";
  for (const Value& element : std::get<List>(value.data))
    out += (out.size() > 1 ? ", " : "") + text_of(element, assign);
  return out + "]";
}

}  // namespace

std::string to_toml(const Value& value) { return text_of(value, kToml); }
std::string to_json(const Value& value) { return text_of(value, kJson); }

std::string toml_quote(std::string_view text) {
  std::string out = json_quote(text);
  // TOML, unlike JSON, requires this character to be escaped.
  for (auto at = out.find('\x7f'); at != out.npos; at = out.find('\x7f', at))
    out.replace(at, 1, "\\u007f");
  return out;
}

std::string toml_key(std::string_view part) {
  const bool bare = !part.empty() && std::ranges::all_of(part, [](unsigned char c) {
    return std::isalnum(c) || c == '_' || c == '-';
  });
  return bare ? std::string(part) : toml_quote(part);
}

std::string_view kind_of(const Value& value) {
  static constexpr std::string_view kNames[] = {"a boolean", "an integer", "a number",
                                                "a string",  "a list",     "a table"};
  return kNames[value.data.index()];
}

void Table::put(Entry entry) {
  const auto same = std::ranges::find(entries_, entry.key, &Entry::key);
  if (same == entries_.end())
    add(std::move(entry));
  else
    *same = std::move(entry);
}

const Entry* Table::find(std::string_view key) const {
  for (const Entry& entry : entries_)
    if (entry.key == key) return &entry;
  return nullptr;
}

template <typename T>
const T& Table::get(std::string_view key) const {
  const Entry* entry = find(key);
  LAMINA_ASSERT(entry != nullptr);
  const T* value = entry->value.get_if<T>();
  LAMINA_ASSERT(value != nullptr);
  return *value;
}

bool Table::boolean(std::string_view key) const { return get<bool>(key); }
std::int64_t Table::integer(std::string_view key) const { return get<std::int64_t>(key); }
double Table::number(std::string_view key) const { return get<double>(key); }
const std::string& Table::string(std::string_view key) const { return get<std::string>(key); }
const List& Table::list(std::string_view key) const { return get<List>(key); }

std::string Table::where(std::string_view key, std::string_view fallback) const {
  const Entry* entry = find(key);
  return entry ? entry->origin.text : std::string(fallback);
}

}  // namespace lamina::config
