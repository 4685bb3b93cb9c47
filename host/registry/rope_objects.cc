#include "registry/rope_objects.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace lamina::registry {
namespace {

constexpr std::string_view kObjects[] = {"model.rope_scaling.", "model.rope_parameters."};
constexpr std::string_view kContext = "original_max_position_embeddings";

// Returns the last item of that name in a config.json; nullptr if there is none.
template <class Item>
const Item* find(const std::vector<Item>& items, std::string_view key) {
  const auto found = std::ranges::find_if(items.rbegin(), items.rend(), [&](const Item& item) {
    return is_json(item.origin) && item.key == key;
  });
  return found == items.rend() ? nullptr : &*found;
}

// Returns the objects, and the objects for kinds of layers in them, as prefixes of keys.
std::set<std::string> prefixes_in(const config::Raw& raw) {
  std::set<std::string> out;
  const auto add = [&](const auto& items) {
    for (const auto& item : items)
      for (const std::string_view object : kObjects)
        if (is_json(item.origin) && item.key.starts_with(object))
          out.insert(item.key.substr(0, item.key.rfind('.') + 1));
  };
  add(raw.entries);
  add(raw.nulls);
  return out;
}

std::string shown(std::string_view key) { return std::string(key.substr(key.find('.') + 1)); }

// Returns the entry with the kind of scaling; nullptr if the object has none.
const config::RawEntry* kind_in(const config::Raw& raw, const std::string& prefix) {
  const config::RawEntry* kind = find(raw.entries, prefix + "rope_type");
  return kind ? kind : find(raw.entries, prefix + "type");
}

std::vector<std::string_view> required_by(std::string_view kind) {
  if (kind == "linear" || kind == "dynamic" || kind == "yarn") return {"factor"};
  if (kind == "llama3") return {"factor", "low_freq_factor", "high_freq_factor"};
  return {};
}

bool is_zero(const config::Value& value) {
  return value == config::Value(0) || value == config::Value(0.0);
}

}  // namespace

void check_rope_objects(const config::Raw& raw, config::Problems& problems) {
  const std::set<std::string> prefixes = prefixes_in(raw);
  // An object for a kind of layers may leave a key to the object of another kind.
  const auto has = [&](const std::string& prefix, std::string_view name) {
    if (std::ranges::count(prefix, '.') == 2)
      return find(raw.entries, fmt::format("{}{}", prefix, name)) != nullptr;
    return std::ranges::any_of(prefixes, [&](const std::string& other) {
      return find(raw.entries, fmt::format("{}{}", other, name)) != nullptr;
    });
  };
  for (const std::string& prefix : prefixes) {
    if (const auto* factor = find(raw.entries, prefix + "attention_factor");
        factor && is_zero(factor->value))
      problems.add({factor->origin.text,
                    fmt::format("'{}' is 0; it must be greater than 0", shown(factor->key)),
                    {"remove it to derive it from the other keys"}});
    const config::RawEntry* kind = kind_in(raw, prefix);
    const auto* text = kind ? kind->value.get_if<std::string>() : nullptr;
    if (!kind)
      for (const char* name : {"rope_type", "type"})
        if (const auto* null = find(raw.nulls, prefix + name))
          problems.add({null->origin.text,
                        fmt::format("'{}' is null; expected a kind of scaling", shown(null->key)),
                        {"without scaling, remove it or write \"default\""}});
    if (!text) continue;
    for (const std::string_view name : required_by(*text))
      if (!has(prefix, name))
        problems.add({kind->origin.text,
                      fmt::format("'{}{}' is missing; '{}' = \"{}\" requires it", shown(prefix),
                                  name, shown(kind->key), *text),
                      {}});
  }
}

void check_scaling_has_kind(const std::vector<ModelKey>& keys, const config::Table& values,
                            config::Problems& problems) {
  const config::Entry* kind = values.find("rope_scaling.rope_type");
  if (!kind || kind->value != config::Value("default")) return;
  for (const char* name :
       {"factor", "low_freq_factor", "high_freq_factor", "beta_fast", "beta_slow", "truncate",
        "attention_factor", "mscale", "mscale_all_dim", "short_factor", "long_factor"}) {
    const std::string key = fmt::format("rope_scaling.{}", name);
    const config::Entry* entry = values.find(key);
    if (!entry || is_json(entry->origin) || entry->origin.kind <= kind->origin.kind) continue;
    const auto declared =
        std::ranges::find(keys, key, [](const ModelKey& known) { return known.key.name; });
    if (declared != keys.end() && declared->key.preset == entry->value) continue;
    problems.add(
        {entry->origin.text,
         fmt::format(
             "'model.{}' has no effect, because 'model.rope_scaling.rope_type' is \"default\"",
             key),
         {"set the kind of scaling, eg: \"linear\", or remove it"}});
  }
}

void prefer_outer_context(config::Raw& raw) {
  const std::string outer_key = fmt::format("model.{}", kContext);
  const config::RawEntry* outer = find(raw.entries, outer_key);
  if (!outer) return;
  for (const std::string_view object : kObjects) {
    const config::RawEntry* kind = kind_in(raw, std::string(object));
    const auto* text = kind ? kind->value.get_if<std::string>() : nullptr;
    if (!text || (*text != "yarn" && *text != "llama3" && *text != "longrope")) continue;
    config::RawEntry inner = *outer;
    inner.key = fmt::format("{}{}", object, kContext);
    std::erase_if(raw.entries, [&](const config::RawEntry& entry) {
      return is_json(entry.origin) && (entry.key == inner.key || entry.key == outer_key);
    });
    raw.entries.insert(raw.entries.begin(), std::move(inner));
    return;
  }
}

}  // namespace lamina::registry
