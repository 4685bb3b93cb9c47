// Reads published config.json files as raw values.
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
    case JsonKind::unsigned_integer:
      return out = json.as_int64(), true;
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
