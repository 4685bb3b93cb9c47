// Calls a family's functions for the config of one model: final values, plan, options.
#include <algorithm>
#include <charconv>
#include <iterator>

#include "config/model_keys.h"
#include "config/schema.h"
#include "config/wrapper.h"
#include "registry/family.h"
#include "registry/family_problems.h"
#include "registry/json_keys.h"
#include "registry/reply.h"
#include "registry/rope_objects.h"

namespace lamina::registry {
namespace {

constexpr std::string_view kModel = "model.";
constexpr std::string_view kDerived = "derived";  // origin of a value

std::vector<std::string> doc_notes(const ModelKey& key) {
  return key.key.doc.empty() ? std::vector<std::string>{} : std::vector{key.key.doc};
}

std::string_view without_section(std::string_view key) {
  return key.starts_with(kModel) ? key.substr(kModel.size()) : key;
}

config::Value zero_of(const ModelKey& key) {
  switch (key.kind) {
    case LAMINA_KIND_INT:
      return config::Value(0);
    case LAMINA_KIND_FLOAT:
      return config::Value(0.0);
    case LAMINA_KIND_BOOL:
      return config::Value(false);
    case LAMINA_KIND_STRING:
      return config::Value(key.none_word());
    default:
      return config::Value(config::List{});
  }
}

// Returns 5 for the name "per_layer_config.5.head_dim" and the alias "per_layer_config.*.head_dim".
std::optional<std::size_t> layer_of(std::string_view name, std::string_view object,
                                    std::string_view member) {
  constexpr std::size_t kMostLayers = 1 << 16;
  if (name.size() <= object.size() + member.size() + 2 || !name.starts_with(object) ||
      !name.ends_with(member))
    return {};
  const std::string_view index =
      name.substr(object.size() + 1, name.size() - object.size() - member.size() - 2);
  std::size_t layer = 0;
  const auto [end, error] = std::from_chars(index.data(), index.data() + index.size(), layer);
  if (error != std::errc{} || end != index.data() + index.size() || layer >= kMostLayers) return {};
  return layer;
}

// Moves the values of single layers, "per_layer_config.5.head_dim", out of `raw` to a list: element
// i is the value of layer i, 0 if it has none. Transformers 5 omits values that all layers have, so
// the list has an element if the object exists. Returns nothing for other keys and files.
std::optional<config::RawEntry> take_by_layer(const ModelKey& key, config::Raw& raw) {
  if (key.kind != LAMINA_KIND_INT_LIST) return {};
  for (const std::string& alias : key.key.aliases) {
    const std::size_t star = alias.find(".*.");
    if (star == std::string::npos) continue;
    const std::string_view object = std::string_view(alias).substr(0, star),
                           member = std::string_view(alias).substr(star + 3);
    const auto section = std::ranges::find_if(raw.sections, [&](const config::RawSection& s) {
      return without_section(s.key) == object;
    });
    if (section == raw.sections.end()) continue;
    config::List values{config::Value(0)};
    std::erase_if(raw.entries, [&](const config::RawEntry& entry) {
      const auto layer = layer_of(without_section(entry.key), object, member);
      if (!layer || !entry.value.get_if<std::int64_t>()) return false;
      if (values.size() <= *layer) values.resize(*layer + 1, config::Value(0));
      values[*layer] = entry.value;
      return true;
    });
    const std::string folder = section->key.substr(0, section->key.size() - object.size());
    return config::RawEntry{
        folder + key.key.name, config::Value(std::move(values)), section->origin, {}, ""};
  }
  return {};
}

bool is_word_for_absent(const ModelKey& key, const config::Value& value) {
  const bool is_text = key.kind == LAMINA_KIND_STRING || key.kind == LAMINA_KIND_STRING_LIST;
  const auto* word = value.get_if<std::string>();
  return !is_text && word && std::ranges::find(key.key.choices, *word) != key.key.choices.end();
}

// Removes values that a word such as "auto" replaces by "not given", and the word.
void drop_absent(const std::vector<ModelKey>& keys, config::Raw& raw) {
  for (const ModelKey& key : keys) {
    if (key.ignored || key.key.choices.empty()) continue;
    std::size_t end = 0;  // of the entries that the last such word overrides
    for (std::size_t i = 0; i < raw.entries.size(); ++i)
      if (config::is_called(key.key, without_section(raw.entries[i].key)) &&
          is_word_for_absent(key, raw.entries[i].value))
        end = i + 1;
    std::size_t i = 0;
    std::erase_if(raw.entries, [&](const config::RawEntry& entry) {
      return i++ < end && config::is_called(key.key, without_section(entry.key));
    });
  }
}

// Returns `raw` with a zero for each null of a key whose null means zero, and with values of single
// layers as lists.
config::Raw with_implied(const std::vector<ModelKey>& keys, const config::Raw& raw) {
  config::Raw out = raw;
  for (const ModelKey& key : keys)
    if (std::optional<config::RawEntry> entry = take_by_layer(key, out))
      out.entries.push_back(*std::move(entry));
  for (const config::RawSection& null : raw.nulls)
    for (const ModelKey& key : keys)
      if (key.null_is_zero && config::is_called(key.key, without_section(null.key)))
        out.entries.push_back({null.key, zero_of(key), null.origin, {}, ""});
  return out;
}

// Returns whether config.json has a null as the value of the key.
bool is_null(const ModelKey& key, const config::Raw& raw) {
  return std::ranges::any_of(raw.nulls, [&](const config::RawSection& null) {
    return config::is_called(key.key, without_section(null.key));
  });
}

// Returns the keys for resolving. A null in the place of a key with a default and a same_as means
// the other key's value; only without the key the default counts.
std::vector<config::Key> without_ignored(const std::vector<ModelKey>& keys,
                                         const config::Raw& raw) {
  std::vector<config::Key> out;
  for (const ModelKey& key : keys) {
    if (key.ignored) continue;
    out.push_back(key.key);
    if (!key.same_as.empty() && is_null(key, raw)) out.back().preset.reset();
  }
  return out;
}

// Returns the origin of a value that is taken from the key in same_as.
std::string text_of_same(const ModelKey& key) { return "as " + key.same_as; }

// Gives keys without a value the value of the key in same_as.
void fill_same(const std::vector<ModelKey>& keys, config::Table& values) {
  for (bool changed = true; changed;) {
    changed = false;
    for (const ModelKey& key : keys) {
      const config::Entry* other = key.same_as.empty() ? nullptr : values.find(key.same_as);
      if (other == nullptr || values.has(key.key.name)) continue;
      values.add({key.key.name,
                  abi::in_kind(other->value, key.kind),
                  {config::Origin::Kind::preset, text_of_same(key)}});
      changed = true;
    }
  }
}

bool has_engram(const config::Table& values) {
  const config::Entry* layers = values.find(config::kEngramLayers);
  const auto* list = layers ? layers->value.get_if<config::List>() : nullptr;
  return list != nullptr && !list->empty();
}

// Returns the host's key, or the number of prediction layers, without which `key` has no effect; ""
// if it always has one.
std::string_view basis_of(const ModelKey& key) {
  const std::string& name = key.key.name;
  if (name.starts_with(config::kPredictionPrefix)) return config::kPredictionLayers;
  if (!key.host) return {};
  if (name == config::kLayerDropout) return config::kDropout;
  if (name == config::kDenseInitScale) return config::kInitializer;
  if (name == config::kMobaTopK) return config::kMobaChunk;
  return config::is_engram_key(name) ? config::kEngramLayers : std::string_view();
}

// Gives keys their defaults if a later source switches off the key that they require, eg
// `--set model.dropout_rate=0.0` for a checkpoint with layer_dropout: overriding one value of a
// file must not mean changing the others.
void drop_overruled(const Family& family, config::Table& values) {
  config::Table out;
  for (const config::Entry& entry : values.entries()) {
    const ModelKey& key = *family.find_key(entry.key);
    const config::Entry* other = values.find(basis_of(key));
    if (!other || other->origin.kind <= entry.origin.kind ||
        family.find_key(other->key)->key.preset != other->value)
      out.add(entry);
    else if (key.key.preset)
      out.add({entry.key, *key.key.preset, {}});
  }
  values = std::move(out);
}

void check_sources(const Family& family, const config::Table& values, config::Problems& problems) {
  for (const config::Entry& entry : values.entries()) {
    const config::Origin::Kind from = entry.origin.kind;
    const bool typed = from != config::Origin::Kind::json && from != config::Origin::Kind::preset;
    const ModelKey& key = *family.find_key(entry.key);
    if (typed && key.json_only)
      problems.add({entry.origin.text,
                    fmt::format("'model.{}' is a key of config.json only", entry.key),
                    doc_notes(key)});
    if (typed && config::is_engram_key(key.key.name) && key.host &&
        key.key.name != config::kEngramLayers && !has_engram(values))
      problems.add(
          {entry.origin.text,
           fmt::format("'model.{}' has no effect, because '{}' lists no layer", entry.key,
                       config::kEngramLayers),
           {fmt::format("list layers in 'model.{}', or remove it", config::kEngramLayers)}});
    const config::Entry* depth = values.find(config::kPredictionLayers);
    // The checkpoint of a training run contains all values, including defaults.
    if (typed && entry.key.starts_with(config::kPredictionPrefix) && depth != nullptr &&
        depth->value == config::Value(0) && !(key.key.preset && entry.value == *key.key.preset))
      problems.add({entry.origin.text,
                    fmt::format("'model.{}' has no effect, because '{}' is 0", entry.key,
                                config::kPredictionLayers),
                    {fmt::format("set 'model.{}' to a positive number, or remove "
                                 "it",
                                 config::kPredictionLayers)}});
  }
}

// Describes an integer outside the range of sizes.
std::string size_text(const ModelKey& key, const std::string& name, std::int64_t number) {
  const double least = std::max(key.key.min.value_or(-static_cast<double>(kMaxSize)),
                                -static_cast<double>(kMaxSize));
  return fmt::format("'{}' must be an integer, at least {} and at most {}, got {}", name, least,
                     kMaxSize, number);
}

// Checks sizes before the plugin reads the values.
void check_sizes(const Family& family, const config::Table& values, config::Problems& problems) {
  for (const config::Entry& entry : values.entries()) {
    const std::int64_t* number = beyond_limits(entry.value);
    if (number && !family.find_key(entry.key)->host)
      problems.add({entry.origin.text,
                    size_text(*family.find_key(entry.key),
                              entry.origin.kind == config::Origin::Kind::json
                                  ? entry.key
                                  : std::string(kModel) + entry.key,
                              *number),
                    doc_notes(*family.find_key(entry.key))});
  }
}

void check_host_keys(const Family& family, const config::Table& values, const std::string& where,
                     config::Problems& problems) {
  struct Limits {
    std::string_view key;
    std::int64_t min, max;
  };
  static constexpr Limits kLimits[] = {{LAMINA_CONFIG_VOCAB_SIZE, 1, kMaxSize},
                                       {LAMINA_CONFIG_HIDDEN_SIZE, 1, kMaxSize},
                                       {LAMINA_CONFIG_NUM_LAYERS, 1, kMaxLayers}};
  for (const auto& [name, min, max] : kLimits) {
    const config::Entry* entry = values.find(name);
    const std::int64_t* value = entry ? entry->value.get_if<std::int64_t>() : nullptr;
    if (value == nullptr)
      problems.add(
          {where, fmt::format("missing key '{}'", name), doc_notes(*family.find_key(name))});
    else if (*value < min || *value > max)
      problems.add({entry->origin.text,
                    fmt::format("'{}' must be {} to {}, got {}", name, min, max, *value),
                    {}});
  }
}

void check_per_layer(const std::vector<ModelKey>& keys, const config::Table& values,
                     config::Problems& problems) {
  const auto num_layers = static_cast<std::size_t>(values.integer(LAMINA_CONFIG_NUM_LAYERS));
  for (const ModelKey& key : keys) {
    const config::Entry* entry = key.per_layer ? values.find(key.key.name) : nullptr;
    const auto* list = entry ? entry->value.get_if<config::List>() : nullptr;
    if (list && !list->empty() && list->size() != num_layers)
      problems.add({entry->origin.text,
                    fmt::format("'{}' must have one element per layer ({}), got {}", key.key.name,
                                num_layers, list->size()),
                    {}});
  }
}

// Checks values that the family derived, and values of other keys. If one is out of its limits, the
// config is the cause; the family's message about it comes first.
void check_computed(const Family& family, const ModelConfig& config, const std::string& where,
                    config::Problems& problems) {
  for (const config::Entry& entry : config.values().entries()) {
    const ModelKey& key = *family.find_key(entry.key);
    const bool same = !key.same_as.empty() && entry.origin.text == text_of_same(key);
    if (!same && entry.origin.text != kDerived) continue;
    const auto accepted = config::check_value(key.key, entry.key, entry.value, "");
    const std::vector<std::string> notes{
        same ? fmt::format("its default is {}; set it explicitly", config.describe(key.same_as))
             : fmt::format("family '{}' derives it from other keys; set it explicitly",
                           family.name())};
    if (const auto* refused = std::get_if<ErrorText>(&accepted))
      problems.add({where, refused->what, notes});
    else if (const std::int64_t* number = beyond_limits(entry.value))
      problems.add({where, size_text(key, entry.key, *number), notes});
  }
}

// Returns the entries in declaration order, without keys of features that the model does not have.
config::Table in_order(const std::vector<ModelKey>& keys, const config::Table& values) {
  config::Table out;
  const bool engram = has_engram(values);
  for (const ModelKey& key : keys) {
    const config::Entry* entry = key.ignored ? nullptr : values.find(key.key.name);
    if (entry == nullptr) continue;
    const bool given = entry->origin.kind != config::Origin::Kind::preset;
    if (!key.host || (config::is_engram_key(entry->key) ? engram : given)) out.add(*entry);
  }
  return out;
}

}  // namespace

ModelConfig Family::configure(const config::Raw& raw, const std::string& where) const {
  const std::vector<ModelKey>& keys = *keys_;
  const lamina_family_t& source = *source_;
  config::Problems problems;
  config::Raw settled = raw;
  settle_rope_keys(keys, name(), settled, problems);
  settle_host_keys(keys, name(), settled, problems);
  refuse_other_kinds(keys, settled, problems);
  std::vector<std::string> idle = drop_ignored(keys, name(), settled);
  drop_absent(keys, settled);
  problems.raise();
  config::Resolved resolved =
      config::resolve_model(without_ignored(keys, settled), with_implied(keys, settled), where);
  config::Table& values = resolved.values;
  refuse_unknown_own(keys, name(), raw, resolved.unread, problems);
  refuse_layer_settings(name(), resolved.unread, problems);
  const IdleScaling scaling = settle_idle_scaling(keys, values);
  std::ranges::copy(scaling.published, std::back_inserter(idle));
  drop_overruled(*this, values);
  check_sources(*this, values, problems);
  check_sizes(*this, values, problems);
  problems.raise();

  fill_same(keys, values);
  if (source.derive) {
    const ModelConfig underived(keys_, values, {}, where);
    const ReplyResult reply =
        call_config_function(*this, ConfigFunction::derive, source.derive, source.user, underived);
    for (const Setting& setting : reply.settings)
      if (!values.has(setting.key))
        values.add(
            {setting.key, setting.value, {config::Origin::Kind::preset, std::string(kDerived)}});
    fill_same(keys, values);
  }
  // A checkpoint also has the keys that were derived.
  for (const IdleSetting& setting : scaling.typed) {
    const config::Entry* derived = values.find(setting.key);
    if (!derived || !(derived->value == setting.value)) problems.add(setting.problem);
  }
  check_host_keys(*this, values, where, problems);
  problems.raise();
  check_per_layer(keys, values, problems);
  check_scaled_base(values, problems);
  problems.raise();

  const bool in_wrapper = std::ranges::any_of(raw.entries, [](const config::RawEntry& entry) {
    const std::string_view name = without_section(entry.key);
    return name.starts_with(config::kTextConfig) || name.starts_with(config::kOutside);
  });
  ModelConfig out(keys_, in_order(keys, values),
                  {.unknown = unknown_keys(keys, resolved.unread),
                   .idle = std::move(idle),
                   .changing = changing_keys(keys, resolved.unread),
                   .training = training_differences(keys, resolved)},
                  where, in_wrapper);
  if (source.validate) {
    const ReplyResult reply =
        call_config_function(*this, ConfigFunction::validate, source.validate, source.user, out);
    for (const ErrorText& problem : reply.problems)
      problems.add(describe_problem(problem, resolved, settled.nulls, where));
    problems.raise();
  }
  check_computed(*this, out, where, problems);
  problems.raise();
  return out;
}

PlanSpec Family::plan(const ModelConfig& config) const {
  const lamina_family_t& source = *source_;
  PlanSpec out =
      call_config_function(*this, ConfigFunction::plan, source.plan, source.user, config).plan;
  if (out.num_layers() != config.num_layers())
    fail(fmt::format("its plan has {} layers; expected {}", out.num_layers(), config.num_layers()),
         {config.describe(LAMINA_CONFIG_NUM_LAYERS)});
  std::int64_t layer = 0;
  for (const SegmentSpec& segment : out.segments) {
    for (const PositionSpec& position : segment.unit) {
      if (position.kv_donor && *position.kv_donor >= layer)
        fail(fmt::format(
            "its plan makes layer {} read the state of layer {}; the donor must be an earlier "
            "layer",
            layer, *position.kv_donor));
      if (position.params_of && *position.params_of >= layer)
        fail(
            fmt::format("its plan makes layer {} use the parameters of layer {}; the owner must be "
                        "an earlier layer",
                        layer, *position.params_of));
      ++layer;
    }
    layer += segment.num_layers() - static_cast<std::int64_t>(segment.unit.size());
  }
  return out;
}

OptionsSpec Family::options(const ModelConfig& config) const {
  const lamina_family_t& source = *source_;
  const ReplyResult reply =
      call_config_function(*this, ConfigFunction::options, source.options, source.user, config);
  if (!reply.head) fail("its options contain no head, which is required");
  return {reply.embed.value_or(EmbedSpec{}), *reply.head, reply.mtp.value_or(MtpSpec{}),
          reply.exports_as};
}

}  // namespace lamina::registry
