// SCH-4: numbers and flags without effect, whose published values are misread in silence. Sizes and
// choices are not judged, as published files have some for other models or for images, nor keys of
// rotary positions ("rope_scaling.factor"), which have an effect with some kinds of scaling only.
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "conformance/check.h"
#include "conformance/checks/checks.h"
#include "conformance/subjects/fingerprint.h"
#include "conformance/subjects/odd_configs.h"
#include "conformance/subjects/variants.h"
#include "core/error.h"

namespace lamina::conformance {
namespace {

using registry::ModelKey;

enum class Effect { untried, none, some };

class Effects {
 public:
  explicit Effects(const FamilySubject& subject) : subject_(subject) {
    for (const ModelKey& key : subject.family().keys())
      if (is_judged(key)) found_[&key] = Effect::untried;
  }

  bool is_done() const { return dead().empty(); }
  std::vector<std::string> dead() const {
    std::vector<std::string> out;
    for (const ModelKey& key : subject_.family().keys()) {
      const auto at = found_.find(&key);
      if (at != found_.end() && at->second == Effect::none)
        out.push_back(fmt::format("'{}'", key.key.name));
    }
    return out;
  }

  // Tries other values of keys without a known effect. A refused value is an effect.
  void try_on(const SmallModel& small) {
    const auto usual = computed(small);
    if (!usual) return;
    const registry::ModelConfig config = subject_.configure(small);
    for (auto& [key, effect] : found_) {
      if (effect == Effect::some) continue;
      const config::Entry* entry = config.values().find(key->key.name);
      for (config::Value& value : other_values(*key, entry ? &entry->value : nullptr)) {
        const SmallModel changed{small.name,
                                 with_value(small.source, key->key.name, std::move(value))};
        effect = computed(changed) == usual ? Effect::none : Effect::some;
        if (effect == Effect::some) break;
      }
    }
  }

 private:
  static bool is_judged(const ModelKey& key) {
    const config::Key& k = key.key;
    const bool is_number = k.type == config::Type::number ||
                           (k.type == config::Type::list && k.element == config::Type::number);
    const std::string_view group = std::string_view(k.name).substr(0, k.name.rfind('.') + 1);
    const bool is_of_rotation = group.find("rope") != group.npos;
    return (is_number || k.type == config::Type::boolean) && !is_of_rotation && !key.ignored &&
           !key.host && !key.json_only;
  }

  std::optional<std::uint64_t> computed(const SmallModel& model) const {
    const std::optional<decoder::Model> opened = open_if_accepted(subject_, model);
    return opened ? std::optional(fingerprint_of_training(*opened)) : std::nullopt;
  }

  const FamilySubject& subject_;
  std::map<const ModelKey*, Effect> found_;
};

constexpr std::size_t kMostChangedModels = 2;

// The model with as many keys changed together as the family accepts: features that are off by
// default are on. `backwards`: from the last key and the last value on.
SmallModel with_everything_changed(const FamilySubject& subject, SmallModel model, bool backwards) {
  std::vector<const ModelKey*> keys;
  for (const ModelKey& key : subject.family().keys())
    if (!key.ignored && !key.host && !key.json_only) keys.push_back(&key);
  if (backwards) std::ranges::reverse(keys);
  for (const ModelKey* key : keys) {
    const registry::ModelConfig config = subject.configure(model);
    const config::Entry* entry = config.values().find(key->key.name);
    std::vector<config::Value> values = other_values(*key, entry ? &entry->value : nullptr);
    if (backwards) std::ranges::reverse(values);
    for (config::Value& value : values) {
      SmallModel changed{model.name, with_value(model.source, key->key.name, std::move(value))};
      if (!is_accepted(subject.family(), changed.source) || !open_if_accepted(subject, changed))
        continue;
      model = std::move(changed);
      break;
    }
  }
  return model;
}

}  // namespace

void check_key_effects(const FamilySubject& subject) {
  Effects effects(subject);
  for (const SmallModel& small : subject.models()) effects.try_on(small);
  // Some keys have an effect only together with others.
  if (!effects.is_done())
    for (const SmallModel& switched : switched_models(subject)) effects.try_on(switched);
  const std::size_t count = std::min(subject.models().size(), kMostChangedModels);
  for (std::size_t i = 0; i < count && !effects.is_done(); ++i)
    for (const bool backwards : {false, true})
      if (!effects.is_done())
        effects.try_on(with_everything_changed(subject, subject.models()[i], backwards));
  const std::vector<std::string> dead = effects.dead();
  if (!dead.empty())
    fail(
        "use {}, drop it from the keys, or describe a model in {}/NAME.toml in which it has an "
        "effect: no other value changes a small model, so a value in config.json is misread in "
        "silence; ignore() is for keys that cannot change what the model computes",
        fmt::join(dead, ", "), models_folder(subject.plugin().file()).filename().string());
}

}  // namespace lamina::conformance
