#include "io/gguf_config_writer.h"

#include <algorithm>
#include <cmath>

#include "core/printable.h"
#include "io/gguf_config.h"
#include "io/gguf_names.h"

namespace lamina::io {

using Type = GgufValue::Type;

namespace {

// JSON would have a null, which means that the key is missing.
void require_finite_element(const GgufFile& file, const GgufValue& value, std::size_t i) {
  const double number = value.number(i);
  if (std::isfinite(number)) return;
  const std::string place = value.is_array ? fmt::format(" at element {}", i) : "";
  file.fail(value.key, fmt::format("is {}{}; expected a finite number", number, place));
}

void write_element(JsonWriter& json, const GgufFile& file, const GgufValue& value, std::size_t i) {
  if (value.type != Type::string) require_finite_element(file, value, i);
  if (value.type == Type::string)
    json.value(value.strings[i]);
  else if (value.type == Type::boolean)
    json.value(value.number(i) != 0);
  else if (value.type == Type::f32)
    json.value(static_cast<float>(value.number(i)));  // 1e-06, not the double next to it
  else if (const auto whole = value.integer(i))
    json.value(*whole);
  else
    json.value(value.number(i));
}

}  // namespace

bool is_off(const GgufValue& value) {
  for (std::size_t i = 0; i < value.size(); ++i)
    if (value.type == Type::string ? !value.strings[i].empty() : value.number(i) != 0) return false;
  return true;
}

bool has_no_effect(const GgufFile& file, std::string_view prefix, const GgufValue& value) {
  const std::string_view own = value.key.substr(prefix.size());
  const auto is_in = [&](const auto& keys) {
    return std::ranges::find(keys, own) != std::end(keys);
  };
  if ((is_off(value) && !is_in(kOnAtZero)) || is_in(kKeysWithoutEffect)) return true;
  if (value.is_array || value.type == Type::string) return false;
  for (const NeutralValue& row : kNeutralValues)
    if (row.key == own && value.number(0) == row.value) return true;
  for (const ConfigName& row : kSameValues) {
    if (row.gguf != own) continue;
    const GgufValue* other = file.find(fmt::format("{}{}", prefix, row.published));
    if (other && !other->is_array && other->type != Type::string &&
        other->number(0) == value.number(0))
      return true;
  }
  return false;
}

void write_value(JsonWriter& json, const GgufFile& file, const GgufValue& value) {
  if (!value.is_array) return write_element(json, file, value, 0);
  json.begin_array();
  for (std::size_t i = 0; i < value.size(); ++i) write_element(json, file, value, i);
  json.end_array();
}

GgufConfigWriter::GgufConfigWriter(const GgufModel& model, const KeepsName& keeps_name)
    : model_(model),
      file_(model.first()),
      prefix_(gguf_architecture(model) + "."),
      keeps_name_(keeps_name) {}

JsonWriter& GgufConfigWriter::key(std::string_view name, std::string_view from) {
  places_.emplace(name, printable(from));
  return json_.key(name);
}

JsonWriter& GgufConfigWriter::key_from_tensor(std::string_view name, std::string_view tensor) {
  return key(name, fmt::format("tensor '{}'", tensor));
}

JsonWriter& GgufConfigWriter::scaling_key(std::string_view name, std::string_view from) {
  places_.emplace(fmt::format("rope_scaling.{}", name), printable(from));
  return json_.key(name);
}

const GgufValue* GgufConfigWriter::find(std::string_view key) const {
  const std::string whole = fmt::format("{}{}", prefix_, key);
  return keeps(whole) ? nullptr : file_.find(whole);
}

std::optional<std::int64_t> GgufConfigWriter::integer(std::string_view key) const {
  const GgufValue* value = find(key);
  return value ? file_.integer(value->key) : std::nullopt;
}

}  // namespace lamina::io
