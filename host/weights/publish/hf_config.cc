#include "weights/publish/hf_config.h"

#include <algorithm>
#include <map>

#include "config/model_keys.h"
#include "config/published_keys.h"
#include "core/error.h"
#include "core/json_writer.h"
#include "publishers/formats.h"
#include "registry/rope_objects.h"

namespace lamina::weights {
namespace {

using config::Value;

// An object under construction: members in insertion order.
struct Object {
  struct Member {
    std::string name;
    std::string json;                // for a leaf
    std::vector<Object> below = {};  // one, or none for a leaf; of a list: its elements
    bool is_list = false;
  };
  std::vector<Member> members;

  // Adds a member of each object in a list: the path is "name[].rest".
  void add_column(std::string_view path, const config::List& values) {
    const std::size_t end = path.find("[].");
    const std::string name(path.substr(0, end));
    auto at = std::ranges::find(members, name, &Member::name);
    if (at == members.end())
      at = members.insert(at, {name, "", std::vector<Object>(values.size()), true});
    at->below.resize(std::max(at->below.size(), values.size()));
    for (std::size_t i = 0; i < values.size(); ++i)
      at->below[i].add(path.substr(end + 3), config::to_json(values[i]));
  }

  void add(std::string_view path, std::string json) {
    std::size_t dot = path.find('.');
    std::string name(path.substr(0, dot));
    if (dot == path.npos) {
      members.push_back({std::move(name), std::move(json)});
      return;
    }
    auto at = std::ranges::find(members, name, &Member::name);
    if (at == members.end()) at = members.insert(at, {name, "", {Object{}}});
    at->below.front().add(path.substr(dot + 1), std::move(json));
  }

  void write(JsonWriter& out) const {
    out.begin_object();
    for (const Member& m : members) {
      out.key(m.name);
      if (m.is_list) {
        out.begin_array();
        for (const Object& element : m.below) element.write(out);
        out.end_array();
      } else if (m.below.empty()) {
        out.raw(m.json);
      } else {
        m.below.front().write(out);
      }
    }
    out.end_object();
  }
};

bool is_zero(const Value& value) {
  if (auto v = value.get_if<std::int64_t>()) return *v == 0;
  if (auto v = value.get_if<double>()) return *v == 0;
  if (auto v = value.get_if<bool>()) return !*v;
  if (auto v = value.get_if<std::string>()) return v->empty();
  auto list = value.get_if<config::List>();
  return list && list->empty();
}

bool is_number(const Value& value) {
  return value.get_if<std::int64_t>() || value.get_if<double>();
}

// Prefix of keys that only GGUF files have: lamina/ext/gguf.h.
constexpr std::string_view kGgufPrefix = "gguf_";

bool has_default(const registry::ModelKey& key, const Value& value, const config::Table& values) {
  if (key.key.preset) return *key.key.preset == value;
  const config::Entry* other = key.same_as.empty() ? nullptr : values.find(key.same_as);
  return other && other->value == value;
}

const std::string& path_of(const registry::ModelKey& key) {
  return key.hf_name.empty() ? key.key.name : key.hf_name;
}

// The names of the object and of its member.
constexpr std::string_view kOwn = config::kOwnObject.substr(0, config::kOwnObject.size() - 1);
constexpr std::string_view kFamily = config::kOwnFamily.substr(config::kOwnObject.size());

}  // namespace

std::string with_family(const JsonValue& config, std::string_view family) {
  JsonWriter json(2);
  json.begin_object();
  for (const auto& [key, value] : config.members())
    if (key != kOwn) json.key(key).value(value);
  json.key(kOwn).begin_object().key(kFamily).value(family);
  if (const JsonValue own = config.find(kOwn); own && own.is_object())
    for (const auto& [key, value] : own.members())
      if (key != kFamily) json.key(key).value(value);
  return json.end_object().end_object().text() + "\n";
}

std::string why_unpublished(const registry::FamilyNames& names) {
  if (names.hf_model_types.empty()) return "its plugin declares no model_type";
  if (names.hf_architectures.empty()) return "its plugin declares no architecture";
  const std::string& architecture = names.hf_architectures.front();
  if (!architecture.ends_with(publishers::kArchitectureWithEncoders)) return "";
  return fmt::format("it is published as {} only, with encoders that a fresh model lacks",
                     architecture);
}

std::string hf_config(const registry::FamilyNames& names, const registry::ModelConfig& config,
                      const HfConfigExtras& extras) {
  if (const std::string why = why_unpublished(names); !why.empty())
    throw UserError(
        ExitCode::checkpoint,
        {"export",
         fmt::format("family '{}' has no form at Hugging Face for a model that started fresh: {}",
                     names.name, why),
         {"use lamina's own format, which `lamina decode -m` reads"}});
  const config::Table& values = config.values();
  // For each top-level object: whether all its keys have their defaults.
  std::map<std::string, bool, std::less<>> is_plain;
  for (const registry::ModelKey& key : config.keys()) {
    const config::Entry* entry = values.find(key.key.name);
    std::size_t dot = path_of(key).find('.');
    if (key.ignored || !entry || dot == std::string::npos) continue;
    auto [at, fresh] = is_plain.try_emplace(path_of(key).substr(0, dot), true);
    at->second = at->second && has_default(key, entry->value, values);
  }

  Object out;
  out.add("architectures", fmt::format("[{}]", json_quote(names.hf_architectures.front())));
  out.add("model_type", json_quote(names.hf_model_types.front()));
  out.add("torch_dtype", json_quote(extras.dtype));
  // Always written, because the default of a class may be outside the vocabulary.
  const auto add_token = [&](std::string_view key, std::optional<std::int64_t> id) {
    out.add(key, id ? std::to_string(*id) : "null");
  };
  add_token("bos_token_id", extras.bos_token);
  add_token("eos_token_id", extras.eos_token);
  add_token("pad_token_id", extras.pad_token);
  for (const registry::ModelKey& key : config.keys()) {
    const config::Entry* entry = values.find(key.key.name);
    if (key.ignored || !entry || key.key.name.starts_with(kGgufPrefix)) continue;
    const std::string& path = path_of(key);
    // Such a key is for reading: its value is in other keys.
    if (key.json_only && path.starts_with(config::kOwnObject)) continue;
    // A family's key without a default and without a value is derived again when it is read.
    const bool unset = !key.host && !key.key.preset && is_zero(entry->value);
    if (path.starts_with(config::kOwnObject) && (unset || has_default(key, entry->value, values)))
      continue;
    // A feature that is off.
    if (path == config::kPredictionLayers && has_default(key, entry->value, values) &&
        is_zero(entry->value))
      continue;
    if (const auto* list = entry->value.get_if<config::List>();
        list && path.find("[].") != path.npos) {
      out.add_column(path, *list);
      continue;
    }
    std::string json = config::to_json(entry->value);
    if (std::size_t dot = path.find('.'); dot != path.npos) {
      const bool left_to_the_reader = (is_number(entry->value) && is_zero(entry->value) &&
                                       has_default(key, entry->value, values)) ||
                                      registry::is_ratio_of_contexts(key.key.name, values);
      if (is_plain[path.substr(0, dot)] || left_to_the_reader) continue;
    }
    const bool none = is_zero(entry->value) || entry->value == Value(key.none_word());
    if (key.null_is_zero && none && key.key.type != config::Type::boolean) json = "null";
    out.add(path, std::move(json));
  }
  JsonWriter json(2);
  out.write(json);
  return json.text() + "\n";
}

}  // namespace lamina::weights
