#include "registry/rope_objects.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace lamina::registry {
namespace {

constexpr std::string_view kModelTable = "model.";
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

constexpr std::string_view kScalingPrefix = "rope_scaling.", kKind = "rope_scaling.rope_type",
                           kYarnPair = "rope_scaling.mscale_all_dim";

struct ScalingKey {
  std::string_view name;
  std::vector<std::string> kinds;  // that use it
};

const std::vector<std::string>& scaling_kinds() {
  static const std::vector<std::string> out = {"linear", "dynamic", "llama3", "yarn", "longrope"};
  return out;
}

// The context before stretching is absent, because it has a value in every model. Families may
// scale their scores by mscale_all_dim, with any kind.
const std::vector<ScalingKey>& scaling_keys() {
  static const std::vector<ScalingKey> out = {{"factor", scaling_kinds()},
                                              {"low_freq_factor", {"llama3"}},
                                              {"high_freq_factor", {"llama3"}},
                                              {"beta_fast", {"yarn"}},
                                              {"beta_slow", {"yarn"}},
                                              {"truncate", {"yarn"}},
                                              {"attention_factor", {"yarn", "longrope"}},
                                              {"mscale", {"yarn"}},
                                              {"mscale_all_dim", scaling_kinds()},
                                              {"short_factor", {"longrope"}},
                                              {"long_factor", {"longrope"}}};
  return out;
}

// Why a key of scaling has no effect.
struct Idle {
  const config::Entry* cause;  // the key that turns it off
  std::string advice;
  // The two are accepted in one file: earlier checkpoints have all keys beside "default".
  bool may_share_a_file = false;
};

// A family may have another kind for its windowed layers, eg: "sliding_rope_type".
constexpr std::string_view kOtherKind = "rope_type";
bool is_kind(const config::Entry& entry) { return entry.key.ends_with(kOtherKind); }

// Returns the start of the names of the scaling keys that the kind applies to: "sliding_" for
// "sliding_rope_scaling.factor". Without such a factor all kinds share the keys of rope_scaling.
std::string scope_of(const config::Entry& kind, const config::Table& values) {
  if (kind.key == kKind) return "";
  std::string scope = kind.key.substr(0, kind.key.size() - kOtherKind.size());
  return values.has(fmt::format("{}{}factor", scope, kScalingPrefix)) ? scope : "";
}

// Returns whether some layers have a kind of scaling that uses the key of the scope.
bool is_used(const ScalingKey& key, std::string_view scope, const config::Table& values) {
  return std::ranges::any_of(values.entries(), [&](const config::Entry& entry) {
    const auto* text = is_kind(entry) ? entry.value.get_if<std::string>() : nullptr;
    if (!text || scope_of(entry, values) != scope) return false;
    const std::string used = *text == "su" ? "longrope" : *text;  // an earlier name
    return std::ranges::count(key.kinds, used) > 0;
  });
}

std::optional<Idle> idleness(const config::Entry& entry, const config::Table& values) {
  const std::size_t start = entry.key.find(kScalingPrefix);
  if (start == std::string::npos) return {};
  const std::string scope = entry.key.substr(0, start);
  const config::Entry* kind =
      values.find(scope.empty() ? std::string(kKind) : fmt::format("{}{}", scope, kOtherKind));
  const auto* text = kind ? kind->value.get_if<std::string>() : nullptr;
  if (!text) return {};
  const auto key = std::ranges::find(
      scaling_keys(), std::string_view(entry.key).substr(start + kScalingPrefix.size()),
      &ScalingKey::name);
  if (key == scaling_keys().end()) return {};
  if (is_used(*key, scope, values)) {
    const config::Entry* pair =
        key->name == "mscale" ? values.find(fmt::format("{}{}", scope, kYarnPair)) : nullptr;
    if (pair && is_zero(pair->value)) return Idle{pair, "set both, or remove it", false};
    return {};
  }
  if (*text == "default" || *text == "mrope")
    return Idle{kind, "set the kind of scaling, eg: \"linear\", or remove it", true};
  if (*text != "su" && std::ranges::count(scaling_kinds(), *text) == 0) return {};
  return Idle{kind, fmt::format("remove it, or set the kind {}", config::join_choices(key->kinds)),
              false};
}

// Returns whether the key of one kind of layers has the value of rope_scaling. Checkpoints have
// such copies of keys that both kinds share.
bool is_copy(const config::Entry& entry, const config::Table& values) {
  const std::size_t start = entry.key.find(kScalingPrefix);
  if (start == 0 || start == std::string::npos) return false;
  const config::Entry* shared = values.find(std::string_view(entry.key).substr(start));
  return shared && shared->value == entry.value;
}

const ModelKey* find_declared(const std::vector<ModelKey>& keys, std::string_view name) {
  const auto key = std::ranges::find(keys, name, [](const ModelKey& one) { return one.key.name; });
  return key == keys.end() ? nullptr : &*key;
}

// Returns whether the family reads the entry and refuses its value.
bool is_refused(const std::vector<ModelKey>& keys, const config::RawEntry& kind) {
  return std::ranges::any_of(keys, [&](const ModelKey& key) {
    return !key.ignored && config::is_called(key.key, shown(kind.key)) &&
           std::holds_alternative<ErrorText>(
               config::check_value(key.key, shown(kind.key), kind.value, kind.source));
  });
}

// Returns the default of the key; nullptr if it has none.
const config::Value* preset_of(const std::vector<ModelKey>& keys, std::string_view name) {
  const ModelKey* key = find_declared(keys, name);
  return key && key->key.preset ? &*key->key.preset : nullptr;
}

std::optional<double> number_in(const config::Value* value) {
  if (value == nullptr) return {};
  if (const auto* integer = value->get_if<std::int64_t>()) return static_cast<double>(*integer);
  const auto* number = value->get_if<double>();
  return number ? std::optional(*number) : std::nullopt;
}

// Returns the number in a config.json, or the default, of a key outside the objects.
std::optional<double> outer_number(const std::vector<ModelKey>& keys, const config::Raw& raw,
                                   std::string_view name) {
  const ModelKey* key = find_declared(keys, name);
  if (key == nullptr) return {};
  const auto found = std::ranges::find_if(
      raw.entries.rbegin(), raw.entries.rend(), [&](const config::RawEntry& entry) {
        return is_json(entry.origin) && entry.key.starts_with(kModelTable) &&
               config::is_called(key->key, std::string_view(entry.key).substr(kModelTable.size()));
      });
  return number_in(found == raw.entries.rend() ? preset_of(keys, name) : &found->value);
}

// Returns how many times longer the context is than the one before stretching.
std::optional<double> context_ratio(const std::vector<ModelKey>& keys, const config::Raw& raw,
                                    const std::string& prefix) {
  const std::optional<double> longest = outer_number(keys, raw, "max_position_embeddings");
  const config::RawEntry* own = find(raw.entries, fmt::format("{}{}", prefix, kContext));
  const std::optional<double> original =
      own ? number_in(&own->value)
          : number_in(preset_of(keys, fmt::format("{}{}", kScalingPrefix, kContext)));
  if (!original && !own) return 1.0;
  return longest && original && *original > 0 ? std::optional(*longest / *original) : std::nullopt;
}

// Returns the object that sets the kind of scaling, without its dot; nullptr if there is none.
const config::RawSection* chosen_object(const config::Raw& raw,
                                        const std::set<std::string>& prefixes) {
  for (const std::string_view object : kObjects) {
    const std::string_view name = object.substr(0, object.size() - 1);
    const config::RawSection* section = find(raw.sections, name);
    const bool may_be_empty = object != kObjects[0];
    if (section && (may_be_empty || prefixes.contains(std::string(object)))) return section;
  }
  return nullptr;
}

}  // namespace

void complete_rope_objects(const std::vector<ModelKey>& keys, config::Raw& raw) {
  const std::set<std::string> prefixes = prefixes_in(raw);
  const auto add = [&](const std::string& key, config::Value value, const config::Origin& origin) {
    raw.entries.push_back({key, std::move(value), origin, {}, ""});
  };
  for (const std::string& prefix : prefixes) {
    const config::RawEntry* kind = kind_in(raw, prefix);
    const auto* text = kind ? kind->value.get_if<std::string>() : nullptr;
    if (!text) continue;
    const config::RawEntry* factor = find(raw.entries, prefix + "factor");
    const config::RawSection* null = find(raw.nulls, prefix + "factor");
    const std::string attention = prefix + "attention_factor";
    if (*text == "yarn" && null && !factor) {
      if (const std::optional<double> ratio = context_ratio(keys, raw, prefix))
        add(prefix + "factor", config::Value(*ratio), config::Origin(null->origin));
    } else if ((*text == "longrope" || *text == "su") && factor &&
               number_in(&factor->value) == 1.0 && !find(raw.entries, attention)) {
      add(attention, config::Value(1.0), config::Origin(factor->origin));
    }
  }
  const ModelKey* kind = find_declared(keys, kKind);
  const config::RawSection* object = chosen_object(raw, prefixes);
  if (!kind || kind->key.preset || !object) return;
  for (const char* name : {".rope_type", ".type"})
    if (find(raw.entries, object->key + name) || find(raw.nulls, object->key + name)) return;
  add(object->key + ".rope_type", config::Value(std::string("default")),
      config::Origin(object->origin));
}

void check_rope_objects(const std::vector<ModelKey>& keys, const config::Raw& raw,
                        config::Problems& problems) {
  const std::set<std::string> prefixes = prefixes_in(raw);
  // rope_scaling adds to the object of a kind of layers.
  const auto has = [&](const std::string& prefix, std::string_view name) {
    return find(raw.entries, fmt::format("{}{}", prefix, name)) ||
           (std::ranges::count(prefix, '.') > 2 &&
            find(raw.entries, fmt::format("{}{}", kObjects[0], name)));
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
    if (!text || is_refused(keys, *kind)) continue;
    for (const std::string_view name : required_by(*text))
      if (!has(prefix, name))
        problems.add({kind->origin.text,
                      fmt::format("'{}{}' is missing; '{}' = \"{}\" requires it", shown(prefix),
                                  name, shown(kind->key), *text),
                      {}});
  }
}

void add_kinds(const std::vector<ModelKey>& keys, config::Raw& raw) {
  const std::set<std::string> prefixes = prefixes_in(raw);
  if (prefixes.contains(std::string(kObjects[0]))) return;
  for (const std::string& prefix : prefixes) {
    const std::string name = prefix + "rope_type";
    const bool is_read = std::ranges::any_of(keys, [&](const ModelKey& key) {
      return !key.ignored && config::is_called(key.key, shown(name));
    });
    const auto first = std::ranges::find_if(raw.entries, [&](const config::RawEntry& entry) {
      return is_json(entry.origin) && entry.key.starts_with(prefix);
    });
    if (std::ranges::count(prefix, '.') == 2 || !is_read || kind_in(raw, prefix) ||
        first == raw.entries.end())
      continue;
    config::RawEntry kind = *first;
    kind.key = name;
    kind.value = config::Value("default");
    raw.entries.push_back(std::move(kind));
  }
}

IdleScaling settle_idle_scaling(const std::vector<ModelKey>& keys, config::Table& values) {
  IdleScaling found;
  config::Table out;
  for (const config::Entry& entry : values.entries()) {
    const std::optional<Idle> idle = idleness(entry, values);
    const config::Value* preset = idle ? preset_of(keys, entry.key) : nullptr;
    if (!idle || (preset != nullptr && *preset == entry.value) ||
        (!is_json(entry.origin) && !idle->may_share_a_file && is_copy(entry, values))) {
      out.add(entry);
      continue;
    }
    const config::Entry& cause = *idle->cause;
    if (is_json(entry.origin))
      found.published.push_back(fmt::format("{} ({}; {} = {} does not use it)", entry.key,
                                            entry.origin.text, cause.key,
                                            config::to_toml(cause.value)));
    else if (entry.origin.kind > cause.origin.kind ||
             (entry.origin.kind == cause.origin.kind && !idle->may_share_a_file))
      found.typed.push_back({entry.key,
                             entry.value,
                             {entry.origin.text,
                              fmt::format("'model.{}' has no effect, because 'model.{}' is {}",
                                          entry.key, cause.key, config::to_toml(cause.value)),
                              {idle->advice}}});
    if (preset != nullptr) out.add({entry.key, *preset, {}});
  }
  values = std::move(out);
  return found;
}

bool is_ratio_of_contexts(std::string_view key, const config::Table& values) {
  if (!key.starts_with(kScalingPrefix) || key.substr(kScalingPrefix.size()) != "factor")
    return false;
  const config::Entry *kind = values.find(kKind), *factor = values.find(key),
                      *attention = values.find(fmt::format("{}attention_factor", kScalingPrefix));
  return kind && factor && number_in(&factor->value) == 1.0 &&
         (kind->value == config::Value("longrope") || kind->value == config::Value("su")) &&
         (!attention || is_zero(attention->value));
}

void check_scaled_base(const config::Table& values, config::Problems& problems) {
  for (const config::Entry& kind : values.entries()) {
    if (!is_kind(kind) || kind.value != config::Value("yarn")) continue;
    std::string name = "rope_theta";
    if (kind.key != kKind)  // "sliding_rope_theta" beside "sliding_rope_type"
      name = kind.key.substr(0, kind.key.size() - kOtherKind.size()) + name;
    const config::Entry* base = values.find(name);
    if (!base || base->value != config::Value(1.0)) continue;
    problems.add(
        {base->origin.text,
         fmt::format("'{}' is 1; yarn needs another base, because the powers of 1 are equal", name),
         {fmt::format("{} is given at {}", kind.key, kind.origin.text)}});
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
