// Writes a config.json from the metadata of a GGUF file and keeps the place of each key. Internal
// to the conversion (gguf_config.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "core/json_writer.h"
#include "io/gguf_model.h"

namespace lamina::io {

// The beginning of keys that describe scaled positions, after "<architecture>.".
inline constexpr std::string_view kRopeScaling = "rope.scaling.";

// Returns whether every element is 0, false or empty: the feature is off.
bool is_off(const GgufValue& value);

// Returns whether the value has no effect on the model, by the tables of gguf_names.h.
bool has_no_effect(const GgufFile& file, std::string_view prefix, const GgufValue& value);

// Writes a value of `file`. Errors (class checkpoint): a number that is not finite.
void write_value(JsonWriter& json, const GgufFile& file, const GgufValue& value);

class GgufConfigWriter {
 public:
  using KeepsName = std::function<bool(std::string_view key)>;

  // REQUIRES: both outlive this.
  GgufConfigWriter(const GgufModel& model, const KeepsName& keeps_name);

  const GgufModel& model() const { return model_; }
  const GgufFile& file() const { return file_; }
  const std::string& prefix() const { return prefix_; }  // "llama."
  JsonWriter& json() { return json_; }
  std::map<std::string, std::string, std::less<>>& places() { return places_; }

  // Begins a member of config.json that is derived from a key of the file.
  JsonWriter& key(std::string_view name, std::string_view from);
  JsonWriter& key_from_tensor(std::string_view name, std::string_view tensor);
  // Begins a member of the object "rope_scaling".
  JsonWriter& scaling_key(std::string_view name, std::string_view from);

  // Returns the value of a key after the prefix; null if the family keeps the key's name, which
  // then has another meaning.
  const GgufValue* find(std::string_view key) const;
  bool keeps(std::string_view whole_key) const { return keeps_name_ && keeps_name_(whole_key); }
  std::optional<std::int64_t> integer(std::string_view key) const;

 private:
  const GgufModel& model_;
  const GgufFile& file_;
  std::string prefix_;
  const KeepsName& keeps_name_;
  JsonWriter json_{2};
  std::map<std::string, std::string, std::less<>> places_;
};

}  // namespace lamina::io
