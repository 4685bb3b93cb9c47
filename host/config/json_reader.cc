// Reads published config.json files as raw values.
#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>

#include "config/raw.h"
#include "core/json.h"
#include "publishers/python_json.h"

namespace lamina::config {
namespace {

constexpr JsonOptions kOptions = [] {
  JsonOptions out = publishers::kPythonJson;
  out.max_bytes = std::size_t{16} << 20;  // some contain label tables
  return out;
}();

// Reads {"__float__": "Infinity"}: an infinite number or NaN, as transformers 5 writes it.
std::optional<double> tagged_number(const JsonValue& json) {
  if (!json.is_object() || json.size() != 1) return {};
  const JsonValue tag = json.find("__float__");
  if (!tag || !tag.is_string()) return {};
  for (const double value :
       {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
        std::numeric_limits<double>::quiet_NaN()})
    if (tag.as_string() == infinite_number(value)) return value;
  return {};
}

// Converts `json` to a value. Returns false for nulls and objects, alone or in a list, which have
// no equivalent.
bool to_value(const JsonValue& json, Value& out) {
  switch (json.kind()) {
    case JsonKind::boolean:
      return out = json.as_bool(), true;
    case JsonKind::integer:
      return out = json.as_int64(), true;
    case JsonKind::unsigned_integer:  // as numbers of more digits
    case JsonKind::real:
      return out = json.as_double(), true;
    case JsonKind::string:
      return out = std::string(json.as_string()), true;
    case JsonKind::null:
      return false;
    case JsonKind::object: {
      const std::optional<double> number = tagged_number(json);
      return number ? (out = *number, true) : false;
    }
    case JsonKind::array:
      break;
  }
  List list;
  for (JsonValue element : json.elements()) {
    list.emplace_back();
    if (!to_value(element, list.back())) return false;
  }
  return out = Value(std::move(list)), true;
}

bool is_list_of_objects(const JsonValue& json) {
  if (!json.is_array() || json.size() == 0) return false;
  for (JsonValue element : json.elements())
    if (!element.is_object() || tagged_number(element)) return false;
  return true;
}

Value zero_like(const Value& value) {
  if (value.get_if<std::string>()) return Value("");
  if (value.get_if<double>()) return Value(0.0);
  return value.get_if<List>() ? Value(List{}) : Value(0);
}

void flatten(const std::string& prefix, const JsonValue& object,
             const std::filesystem::path& folder, Raw& out);

// Reads a list of objects as lists, one per member: [{"a": 1}, {"a": 2}] below "x" is "x[].a" =
// [1, 2]. An object without the member counts as 0 or "". Lists have no booleans: true is 1.
void flatten_list(const std::string& key, const JsonValue& list,
                  const std::filesystem::path& folder, Raw& out) {
  std::vector<RawEntry> columns;
  std::size_t row = 0;
  for (JsonValue element : list.elements()) {
    Raw one;
    flatten(key + "[].", element, folder, one);
    for (RawEntry& entry : one.entries) {
      if (const bool* flag = entry.value.get_if<bool>()) entry.value = Value(*flag ? 1 : 0);
      auto at = std::ranges::find(columns, entry.key, &RawEntry::key);
      if (at == columns.end()) {
        columns.push_back(
            {entry.key, Value(List(row, zero_like(entry.value))), entry.origin, folder, ""});
        at = columns.end() - 1;
      }
      std::get<List>(at->value.data).push_back(std::move(entry.value));
    }
    ++row;
    for (RawEntry& column : columns) {
      List& values = std::get<List>(column.value.data);
      if (values.size() < row) values.push_back(zero_like(values.front()));
    }
    out.mixed_lists.insert(out.mixed_lists.end(), one.mixed_lists.begin(), one.mixed_lists.end());
  }
  out.entries.insert(out.entries.end(), std::make_move_iterator(columns.begin()),
                     std::make_move_iterator(columns.end()));
}

void flatten(const std::string& prefix, const JsonValue& object,
             const std::filesystem::path& folder, Raw& out) {
  for (auto [name, json] : object.members()) {
    RawEntry entry;
    entry.key = prefix + std::string(name);
    entry.folder = folder;
    entry.origin = {Origin::Kind::json, json.where()};
    if (json.is_object() && !tagged_number(json)) {
      out.sections.push_back({entry.key, entry.origin});
      flatten(entry.key + ".", json, folder, out);
    } else if (is_list_of_objects(json)) {
      out.mixed_lists.push_back({entry.key, entry.origin});
      flatten_list(entry.key, json, folder, out);
    } else if (json.is_null()) {
      out.nulls.push_back({entry.key, entry.origin});
    } else if (to_value(json, entry.value)) {
      out.entries.push_back(std::move(entry));
    } else {
      out.mixed_lists.push_back({entry.key, entry.origin});
    }
  }
}

Raw flatten_document(const JsonDocument& document, const std::string& prefix,
                     const std::filesystem::path& folder) {
  Raw out;
  flatten(prefix, document.root(), folder, out);
  return out;
}

}  // namespace

Raw parse_json(std::string_view text, const std::string& name, const std::string& prefix) {
  return flatten_document(JsonDocument::parse(std::string(text), name, kOptions), prefix, {});
}

Raw read_json(const std::filesystem::path& path, const std::string& prefix) {
  return flatten_document(JsonDocument::read(path.string(), kOptions), prefix, path.parent_path());
}

}  // namespace lamina::config
