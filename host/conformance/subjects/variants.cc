#include "conformance/subjects/variants.h"

#include <algorithm>
#include <set>
#include <utility>

#include "conformance/subjects/fingerprint.h"
#include "conformance/subjects/odd_configs.h"
#include "core/error.h"

namespace lamina::conformance {
namespace {

using config::List;
using config::Value;

constexpr std::string_view kAcross = "across";  // 1 = documents are not separated

bool is_switch(const registry::ModelKey& key) {
  return key.key.type == config::Type::boolean ||
         (key.key.type == config::Type::string && !key.key.choices.empty());
}

// Integers that often fit together with the other sizes of a model.
std::vector<Value> other_integers(const config::Key& key, std::int64_t now) {
  std::vector<Value> out;
  for (const std::int64_t value :
       {now + 1, now * 2, now / 2, now - 1, std::int64_t{1}, std::int64_t{0}})
    if (value != now && within_limits(key, static_cast<double>(value)) &&
        std::ranges::find(out, Value(value)) == out.end())
      out.emplace_back(value);
  return out;
}

std::vector<Value> other_numbers(const config::Key& key, double now) {
  std::vector<Value> out;
  for (const double value : {now * 1.25, now * 0.75, now + 0.25, now - 0.25})
    if (value != now && within_limits(key, value)) out.emplace_back(value);
  return out;
}

std::vector<Value> other_elements(const config::Key& key, const Value& now) {
  if (const auto* i = now.get_if<std::int64_t>()) return other_integers(key, *i);
  if (const auto* d = now.get_if<double>()) return other_numbers(key, *d);
  std::vector<Value> out;
  for (const std::string& choice : key.choices)
    if (!(Value(choice) == now)) out.emplace_back(choice);
  return out;
}

std::vector<Value> other_lists(const config::Key& key, const List& now) {
  std::vector<Value> out;
  if (now.empty()) return out;
  for (Value& last : other_elements(key, now.back())) {
    List list = now;
    list.back() = std::move(last);
    out.emplace_back(std::move(list));
  }
  return out;
}

}  // namespace

std::vector<Value> other_values(const registry::ModelKey& key, const Value* now) {
  const config::Key& k = key.key;
  switch (k.type) {
    case config::Type::boolean: {
      const bool* is = now ? now->get_if<bool>() : nullptr;
      return {Value(is ? !*is : true)};
    }
    case config::Type::integer:
      return other_integers(k,
                            now && now->get_if<std::int64_t>() ? *now->get_if<std::int64_t>() : 2);
    case config::Type::number:
      return other_numbers(k, now && now->get_if<double>() ? *now->get_if<double>() : 1.0);
    case config::Type::string:
      return other_elements(k, now ? *now : Value(""));
    case config::Type::list:
      if (now && now->get_if<List>()) return other_lists(k, *now->get_if<List>());
      return {};
    case config::Type::table:  // only for elements; plugins do not declare one
      break;
  }
  return {};
}

bool is_accepted(const registry::Family& family, const config::ModelSource& source) {
  try {
    const registry::ModelConfig config = family.configure(source.raw, source.where);
    family.plan(config);
    family.options(config);
    return true;
  } catch (const Error&) {  // SCH-2 reports a refusal without words about the config
    return false;
  }
}

std::vector<Variant> variants_of(const FamilySubject& subject, const SmallModel& small,
                                 Changed which) {
  std::vector<Variant> out;
  const registry::ModelConfig config = subject.configure(small);
  for (const registry::ModelKey& key : subject.family().keys()) {
    if (key.ignored || key.host || key.json_only) continue;
    if (which == Changed::switches && !is_switch(key)) continue;
    const config::Entry* entry = config.values().find(key.key.name);
    for (Value& value : other_values(key, entry ? &entry->value : nullptr)) {
      std::string name =
          fmt::format("{}, {} = {}", small.name, key.key.name, config::to_toml(value));
      SmallModel model{std::move(name), with_value(small.source, key.key.name, std::move(value))};
      if (!is_accepted(subject.family(), model.source)) continue;
      out.push_back({std::move(model), &key});
      if (!is_switch(key)) break;
    }
  }
  return out;
}

std::vector<SmallModel> switched_models(const FamilySubject& subject) {
  std::vector<SmallModel> out;
  std::set<std::string> seen;  // changes
  for (const SmallModel& small : subject.models()) {
    const auto usual = fingerprint_of(subject, small);
    for (Variant& variant : variants_of(subject, small, Changed::switches)) {
      const std::string change = variant.model.name.substr(small.name.size());
      if (seen.contains(change)) continue;
      const auto changed = fingerprint_of(subject, variant.model);
      if (!changed || changed == usual) continue;
      seen.insert(change);
      out.push_back(std::move(variant.model));
    }
  }
  return out;
}

SmallModel with_documents_apart(const FamilySubject& subject, const SmallModel& small) {
  SmallModel out = small;
  std::size_t uses = num_uses(subject.open(small), kAcross);
  if (uses == 0) return out;
  const registry::ModelConfig config = subject.configure(small);
  for (const registry::ModelKey& key : subject.family().keys()) {
    const config::Entry* entry = key.ignored ? nullptr : config.values().find(key.key.name);
    const bool given = entry && entry->origin.kind != config::Origin::Kind::preset;
    if (!given || !(entry->value == Value(true))) continue;
    SmallModel other{out.name, without_value(out.source, key.key)};
    const std::optional<decoder::Model> opened = open_if_accepted(subject, other);
    const std::size_t left = opened ? num_uses(*opened, kAcross) : uses;
    if (left >= uses) continue;
    uses = left;
    out = std::move(other);
  }
  return out;
}

std::optional<decoder::Model> open_if_accepted(const FamilySubject& subject,
                                               const SmallModel& model) {
  try {
    return subject.open(model);
  } catch (const Refused&) {
    return std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
}

std::optional<std::uint64_t> fingerprint_of(const FamilySubject& subject, const SmallModel& model) {
  const std::optional<decoder::Model> opened = open_if_accepted(subject, model);
  return opened ? std::optional(fingerprint(*opened)) : std::nullopt;
}

}  // namespace lamina::conformance
