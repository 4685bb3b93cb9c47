#include "registry/json_keys.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "config/model_keys.h"
#include "config/published_keys.h"
#include "config/wrapper.h"
#include "registry/rope_objects.h"

namespace lamina::registry {
namespace {

constexpr std::string_view kModel = "model.", kScaling = "rope_scaling.",
                           kParameters = "rope_parameters.";
// Outside a text_config it concerns fresh weights of other parts.
constexpr std::string_view kInitializerRange = "initializer_range";

std::string_view without_section(std::string_view key) {
  return key.starts_with(kModel) ? key.substr(kModel.size()) : key;
}

// Calls `function` with each list of keys of `raw`: values, objects, nulls, untyped lists.
template <class Function>
void for_each_list(config::Raw& raw, const Function& function) {
  function(raw.entries);
  function(raw.sections);
  function(raw.nulls);
  function(raw.mixed_lists);
}

// Removes the values of config.json whose name satisfies `fits`.
template <class Fits>
void erase(config::Raw& raw, const Fits& fits) {
  for_each_list(raw, [&](auto& list) {
    std::erase_if(list, [&](const auto& item) {
      return is_json(item.origin) && fits(without_section(item.key));
    });
  });
}

// Returns whether config.json has a value below the object, eg: "rope_scaling.".
bool has_below(config::Raw& raw, std::string_view object) {
  bool found = false;
  for_each_list(raw, [&](auto& list) {
    found |= std::ranges::any_of(list, [&](const auto& item) {
      return is_json(item.origin) && without_section(item.key).starts_with(object);
    });
  });
  return found;
}

bool is_rope_path(std::string_view name) {
  return name.starts_with(kScaling) || name.starts_with(kParameters);
}

// Names of rotary positions in a family's keys.
struct RopeNames {
  bool scaling = false;                                      // "rope_scaling.x"
  bool flat = false;                                         // "rope_parameters.x"
  std::set<std::string, std::less<>> groups;                 // g of "rope_parameters.g.x"
  std::map<std::string, const ModelKey*, std::less<>> keys;  // by every name

  explicit RopeNames(const std::vector<ModelKey>& all) {
    for (const ModelKey& key : all) {
      add(key.key.name, key);
      for (const std::string& alias : key.key.aliases) add(alias, key);
    }
  }

  bool is_group(std::string_view name) const {
    return groups.contains(name.substr(0, name.find('.')));
  }

 private:
  void add(const std::string& name, const ModelKey& key) {
    keys.emplace(name, &key);
    scaling |= name.starts_with(kScaling);
    if (!name.starts_with(kParameters)) return;
    const std::string below = name.substr(kParameters.size());
    if (const std::size_t dot = below.find('.'); dot != below.npos)
      groups.insert(below.substr(0, dot));
    else
      flat = true;
  }
};

// Returns the keys that config.json gives below the object.
std::set<const ModelKey*> keys_below(const RopeNames& names, const config::Raw& raw,
                                     std::string_view object) {
  std::set<const ModelKey*> out;
  for (const config::RawEntry& entry : raw.entries) {
    const std::string_view name = without_section(entry.key);
    if (!is_json(entry.origin) || !name.starts_with(object)) continue;
    if (const auto found = names.keys.find(name); found != names.keys.end())
      out.insert(found->second);
  }
  return out;
}

template <class Fits>
void erase_keys(const RopeNames& names, const std::set<const ModelKey*>& keys, config::Raw& raw,
                const Fits& fits) {
  erase(raw, [&](std::string_view name) {
    const auto found = names.keys.find(name);
    return found != names.keys.end() && keys.contains(found->second) && fits(name);
  });
}

void check_groups(const RopeNames& names, const std::string& family, const config::Raw& raw,
                  config::Problems& problems) {
  for (const config::RawSection& section : raw.sections) {
    const std::string_view name = without_section(section.key);
    if (!is_json(section.origin) || !is_rope_path(name)) continue;
    const std::string_view below = name.substr(name.find('.') + 1);
    if (names.keys.contains(name)) continue;  // refused as a value of the wrong kind
    if (name.starts_with(kParameters) && names.is_group(below)) continue;
    std::vector<std::string> notes;
    if (!names.groups.empty())
      notes.push_back(fmt::format("rope_parameters may contain {}", fmt::join(names.groups, ", ")));
    problems.add({section.origin.text,
                  fmt::format("'{}' is an object, but family '{}' has no layers with rotary "
                              "positions of that kind",
                              name, family),
                  std::move(notes)});
  }
}

// The reference implementation prefers keys of groups to flat keys of the same object.
void choose_groups(const RopeNames& names, config::Raw& raw, config::Problems& problems) {
  std::vector<std::string> lacking;
  for (const std::string& group : names.groups)
    if (!has_below(raw, fmt::format("{}{}.", kParameters, group))) lacking.push_back(group);
  const bool nested = lacking.size() < names.groups.size();
  const auto flat = std::ranges::find_if(raw.entries, [&](const config::RawEntry& entry) {
    const std::string_view name = without_section(entry.key);
    return is_json(entry.origin) && name.starts_with(kParameters) &&
           !names.is_group(name.substr(kParameters.size()));
  });
  if (nested && !lacking.empty() && flat != raw.entries.end())
    problems.add({flat->origin.text,
                  fmt::format("'{}' is given beside objects for some layers, but the object for {} "
                              "is missing",
                              without_section(flat->key), fmt::join(lacking, ", ")),
                  {"give an object for every kind of layers, or for none"}});
  erase(raw, [&](std::string_view name) {
    if (!name.starts_with(kParameters)) return false;
    const std::string_view below = name.substr(kParameters.size());
    return names.is_group(below) != nested && !names.groups.contains(below);
  });
}

void choose_object(const RopeNames& names, config::Raw& raw, config::Problems& problems) {
  const bool groups_only = !names.groups.empty() && !names.flat;
  if (has_below(raw, kScaling)) {
    if (groups_only)  // rope_scaling changes the values of the main group
      erase_keys(names, keys_below(names, raw, kScaling), raw,
                 [](std::string_view name) { return name.starts_with(kParameters); });
    else
      erase(raw, [](std::string_view name) { return name.starts_with(kParameters); });
  }
  if (!names.groups.empty() && !groups_only) choose_groups(names, raw, problems);
}

// Returns whether the value of a host key leaves the model unchanged.
bool changes_nothing(const ModelKey& key, const config::RawEntry& entry) {
  const auto checked = config::check_value(key.key, key.key.name, entry.value, "");
  const auto* value = std::get_if<config::Value>(&checked);
  if (value == nullptr) return false;
  if (key.key.preset) return *value == *key.key.preset;
  return *value == config::Value(false);
}

// Returns the name without the object that may contain it in config.json: none, or an object
// of rotary positions.
std::string_view plain_name(std::string_view name) {
  for (std::string_view object : {kScaling, kParameters})
    if (name.starts_with(object) && name.substr(object.size()) == config::kRotaryShare)
      return config::kRotaryShare;
  return name;
}

// Returns whether `name` is the key or below it: config.json may have an object there.
bool covers(const ModelKey& key, std::string_view name) {
  return name.starts_with(key.key.name) &&
         (name.size() == key.key.name.size() || name[key.key.name.size()] == '.' ||
          name[key.key.name.size()] == '[');
}

bool is_ignored(const std::vector<ModelKey>& keys, std::string_view name) {
  return std::ranges::any_of(keys,
                             [&](const ModelKey& key) { return key.ignored && covers(key, name); });
}

// Returns the name of a key outside text_config as the file has it.
std::string_view as_in_file(std::string_view name) {
  return name.starts_with(config::kOutside) ? name.substr(config::kOutside.size()) : name;
}

// Returns whether the family reads a key in the object, or in a list of objects, of that name.
bool reads_below(const std::vector<ModelKey>& keys, std::string_view top) {
  const auto is_below = [&](std::string_view path) {
    return path.size() > top.size() && path.starts_with(top) &&
           (path[top.size()] == '.' || path[top.size()] == '[');
  };
  return std::ranges::any_of(keys, [&](const ModelKey& key) {
    return is_below(key.key.name) || std::ranges::any_of(key.key.aliases, is_below);
  });
}

// "layers" for "layers.width" and, in a list of objects, "layers[].width".
std::string_view top_of(std::string_view name) { return name.substr(0, name.find_first_of(".[")); }

// Returns the training key with that path in config.json; null for keys of other parts of a model,
// and for names of dropout that only the family knows and ignores.
const config::TrainingKey* training_key(const std::vector<ModelKey>& keys, std::string_view path) {
  const std::string_view top = top_of(path);
  if (path != top && !reads_below(keys, top)) return nullptr;
  const config::TrainingKey* known = config::find_training_key(path.substr(path.rfind('.') + 1));
  return known != nullptr && known->name.empty() && is_ignored(keys, path) ? nullptr : known;
}

}  // namespace

void settle_rope_keys(const std::vector<ModelKey>& keys, const std::string& family,
                      config::Raw& raw, config::Problems& problems) {
  const RopeNames names(keys);
  if (!names.scaling && !names.flat && names.groups.empty()) return;
  check_groups(names, family, raw, problems);
  if (!names.scaling && has_below(raw, kScaling)) {
    const auto place = std::ranges::find_if(raw.entries, [](const config::RawEntry& entry) {
      return is_json(entry.origin) && without_section(entry.key).starts_with(kScaling);
    });
    problems.add({place == raw.entries.end() ? "config.json" : place->origin.text,
                  fmt::format("'rope_scaling' is not read by family '{}'", family),
                  {"it reads rotary positions from 'rope_parameters'"}});
    return;
  }
  choose_object(names, raw, problems);
  prefer_outer_context(raw);
  complete_rope_objects(keys, raw);
  check_rope_objects(keys, raw, problems);
  add_kinds(keys, raw);
  std::set<const ModelKey*> given = keys_below(names, raw, kScaling);
  given.merge(keys_below(names, raw, kParameters));
  erase_keys(names, given, raw, [](std::string_view name) { return !is_rope_path(name); });
}

std::vector<std::string> drop_ignored(const std::vector<ModelKey>& keys, const std::string& family,
                                      config::Raw& raw) {
  std::vector<std::string> out;
  for (const config::RawEntry& entry : raw.entries) {
    if (!is_json(entry.origin)) continue;
    const std::string_view name = without_section(entry.key);
    const auto declared = [&](bool ignored) {
      return std::ranges::find_if(keys, [&](const ModelKey& key) {
        return key.ignored == ignored && key.key.name == name;
      });
    };
    if (const auto own = declared(false);
        own != keys.end() && declared(true) != keys.end() && own->key.preset != entry.value)
      out.push_back(fmt::format("{} ({}; family '{}' reads it as '{}')", name, entry.origin.text,
                                family, own->hf_name));
  }
  erase(raw, [&](std::string_view name) {
    return std::ranges::any_of(keys, [&](const ModelKey& key) {
      return key.ignored && key.key.name == name &&
             std::ranges::any_of(
                 keys, [&](const auto& other) { return !other.ignored && other.key.name == name; });
    });
  });
  return out;
}

void refuse_other_kinds(const std::vector<ModelKey>& keys, config::Raw& raw,
                        config::Problems& problems) {
  std::erase_if(raw.entries, [&](const config::RawEntry& entry) {
    const std::string_view name = without_section(entry.key);
    const bool declared = std::ranges::any_of(
        keys, [&](const ModelKey& key) { return config::is_called(key.key, name); });
    const config::FixedKey* fixed = config::find_fixed_key(name);
    if (!is_json(entry.origin) || fixed == nullptr || declared) return false;
    if (entry.value != config::Value(fixed->value))
      problems.add({entry.origin.text,
                    fmt::format("'{}' is {}; it must be {}: {}", name, config::to_toml(entry.value),
                                fixed->value, fixed->reason),
                    {}});
    return true;
  });
}

void settle_host_keys(const std::vector<ModelKey>& keys, const std::string& family,
                      config::Raw& raw, config::Problems& problems) {
  std::erase_if(raw.entries, [&](const config::RawEntry& entry) {
    const std::string_view name = without_section(entry.key);
    const auto key = std::ranges::find_if(keys, [&](const ModelKey& one) {
      return one.host && !config::is_engram_key(one.key.name) && one.key.name == plain_name(name);
    });
    if (!is_json(entry.origin) || key == keys.end()) return false;
    if (!changes_nothing(*key, entry))
      problems.add(
          {entry.origin.text,
           fmt::format("'{}' is {}, but family '{}' does not read it", name,
                       config::to_toml(entry.value), family),
           {fmt::format(
                "a run file can set lamina's key of this name, 'model.{}'; a config.json can set "
                "it as '{}{}'",
                key->key.name, config::kOwnObject, key->key.name),
            "authors of plugins: declare the key, or ignore it"}});
    return true;
  });
}

std::vector<std::string> unknown_keys(const std::vector<ModelKey>& keys,
                                      const std::vector<config::RawEntry>& unread) {
  std::map<std::string, std::string> places;  // by name
  for (const config::RawEntry& entry : unread) {
    const std::string_view path = without_section(entry.key), name = as_in_file(path);
    const std::string_view top = top_of(name);
    if (config::has_no_effect(top) || training_key(keys, name) != nullptr ||
        config::find_fixed_key(name) != nullptr || (path != name && name == kInitializerRange) ||
        name.starts_with(config::kTextConfig) || is_ignored(keys, name))
      continue;
    const bool apart = path == name && reads_below(keys, top);
    places.try_emplace(std::string(apart ? name : top), entry.origin.text);
  }
  std::vector<std::string> out;
  for (const auto& [name, place] : places) out.push_back(fmt::format("{} ({})", name, place));
  return out;
}

std::vector<std::string> changing_keys(const std::vector<ModelKey>& keys,
                                       const std::vector<config::RawEntry>& unread) {
  std::vector<std::string> out;
  for (const config::RawEntry& entry : unread)
    if (const std::string_view name = without_section(entry.key);
        config::may_change_results(name, entry.value) && !is_ignored(keys, name))
      out.push_back(
          fmt::format("'{}' = {} ({})", name, config::to_toml(entry.value), entry.origin.text));
  return out;
}

namespace {

// Returns the deviation of fresh weights if the user set it and MaxText's initialisation, which
// does not read it, was not set later; else null. Checkpoints, and run files that training wrote,
// have the default of every key.
const config::Entry* idle_range(const std::vector<ModelKey>& keys, const config::Table& values) {
  const config::Entry* range = values.find(kInitializerRange);
  const config::Entry* initializer = values.find(config::kInitializer);
  if (range == nullptr || range->origin.kind < config::Origin::Kind::run_file ||
      initializer == nullptr || initializer->origin.kind > range->origin.kind ||
      initializer->value != config::Value(std::string(config::kInitializerMaxtext)))
    return nullptr;
  const auto known =
      std::ranges::find(keys, kInitializerRange, [](const ModelKey& key) { return key.key.name; });
  return known != keys.end() && known->key.preset == range->value ? nullptr : range;
}

}  // namespace

std::vector<std::string> training_differences(const std::vector<ModelKey>& keys,
                                              const config::Resolved& resolved) {
  const config::Table& values = resolved.values;
  std::vector<std::string> out;
  for (const config::RawEntry& entry : resolved.unread) {
    const std::string_view name = without_section(entry.key);
    const config::TrainingKey* known = training_key(keys, name);
    if (known == nullptr || entry.value == config::Value(0) || entry.value == config::Value(0.0) ||
        entry.value == config::Value(false))
      continue;
    const config::Entry* set = values.find(known->instead);
    if (set != nullptr && set->value != config::Value(0.0)) continue;
    const bool can_be_set =
        !known->instead.empty() && std::ranges::any_of(keys, [&](const ModelKey& key) {
          return !key.ignored && key.key.name == known->instead;
        });
    out.push_back(
        fmt::format("'{}' is {} ({}): the original was trained with {}, but this run has "
                    "none{}",
                    name, config::to_toml(entry.value), entry.origin.text, known->effect,
                    can_be_set ? fmt::format(" unless 'model.{}' is set", known->instead) : ""));
  }
  if (const config::Entry* range = idle_range(keys, values))
    out.push_back(fmt::format(
        "{}: 'model.{}' has no effect, because 'model.{}' is \"{}\"; remove it", range->origin.text,
        kInitializerRange, config::kInitializer, config::kInitializerMaxtext));
  return out;
}

void refuse_unknown_own(const std::vector<ModelKey>& keys, const std::string& family,
                        const config::Raw& raw, const std::vector<config::RawEntry>& unread,
                        config::Problems& problems) {
  std::map<std::string_view, std::string_view> places;  // by member
  const auto note = [&](const auto& item) {
    const std::string_view name = without_section(item.key);
    if (is_json(item.origin) && name.starts_with(config::kOwnObject))
      places.try_emplace(top_of(name.substr(config::kOwnObject.size())), item.origin.text);
  };
  std::ranges::for_each(unread, note);
  for (const config::RawSection& null : raw.nulls)
    if (std::ranges::none_of(keys, [&](const ModelKey& key) {
          return config::is_called(key.key, without_section(null.key));
        }))
      note(null);
  for (const auto& [member, place] : places) {
    const bool is_elsewhere = std::ranges::any_of(
        keys, [&](const ModelKey& key) { return config::is_called(key.key, member); });
    problems.add(
        {std::string(place),
         is_elsewhere
             ? fmt::format("'{}{}' has no effect: family '{}' reads '{}' outside of the object",
                           config::kOwnObject, member, family, member)
             : fmt::format("'{}{}' changes the model, but family '{}' does not have this key",
                           config::kOwnObject, member, family),
         {is_elsewhere
              ? "move the key out of the object, or remove it"
              : "a plugin, or a later lamina, wrote the file: give the plugin with --plugin "
                "FILE, or its folder in LAMINA_PLUGIN_PATH"}});
  }
}

void refuse_layer_settings(const std::string& family, const std::vector<config::RawEntry>& unread,
                           config::Problems& problems) {
  for (const config::RawEntry& entry : unread)
    if (const std::string_view name = without_section(entry.key);
        name == "per_layer_config" || name.starts_with("per_layer_config."))
      problems.add({entry.origin.text,
                    fmt::format("'{}' is {}, but family '{}' has no such setting per layer", name,
                                config::to_toml(entry.value), family),
                    {}});
}

}  // namespace lamina::registry
