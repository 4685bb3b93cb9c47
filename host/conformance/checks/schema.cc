// SCH: the keys of a family, and its reaction to unusual and wrong values.
#include <algorithm>
#include <map>
#include <set>

#include "conformance/check.h"
#include "conformance/checks/checks.h"
#include "conformance/subjects/odd_configs.h"
#include "conformance/subjects/subject.h"
#include "core/error.h"
#include "weights/publish/hf_config.h"

namespace lamina::conformance {
namespace {

using config::Value;

// Makes the parts of the model that a refused value would prevent.
void make(const FamilySubject& subject, const config::ModelSource& source, bool whole) {
  const registry::ModelConfig config = subject.family().configure(source.raw, source.where);
  subject.family().plan(config);
  subject.family().options(config);
  if (!whole) return;
  const std::shared_ptr<const registry::Family> shared(&subject.family(),
                                                       [](const registry::Family*) {});
  const decoder::Model model(shared, config, {.compress_tokens = tokens_of_two});
  const registry::EmbedSpec& embed = model.options().embed;
  std::int64_t tokens = 6;
  if (embed.positions == registry::Positions::learned)
    tokens = std::min(tokens, embed.max_positions);
  model.loss_graph({2, tokens}, {.training = true, .aux = true, .mtp = true});
  if (model.is_autoregressive()) model.decode_graph({2, 1}, {tokens, tokens});
}

// The error; empty if there was none. Throws Failure if it is not about the config.
std::string error_of(const FamilySubject& subject, const config::ModelSource& source,
                     const std::string& what, bool whole) {
  try {
    make(subject, source, whole);
  } catch (const UserError& refused) {
    if (refused.code() != ExitCode::usage)
      fail("{} is refused with exit code {}: {}", what, static_cast<int>(refused.code()),
           refused.what());
    return refused.what();
  } catch (const std::bad_alloc&) {
    return {};  // an allowed size that exceeds the memory
  } catch (const std::exception& thrown) {
    fail("{} is not refused in words about the config: {}", what, thrown.what());
  }
  return {};
}

bool names_a_key(const registry::Family& family, const std::string& key, const std::string& error) {
  return error.find(key) != error.npos ||
         std::ranges::any_of(family.keys(), [&](const registry::ModelKey& other) {
           return error.find("'" + other.key.name + "'") != error.npos;
         });
}

}  // namespace

void check_keys(const FamilySubject& subject) {
  const registry::Family& family = subject.family();
  std::map<std::string, std::string> meant;  // by path in config.json
  for (const registry::ModelKey& key : family.keys()) {
    if (key.ignored || key.host) continue;
    if (key.key.doc.empty()) fail("key '{}' has no doc line", key.key.name);
    std::set<std::string> paths(key.key.aliases.begin(), key.key.aliases.end());
    if (paths.size() != key.key.aliases.size()) fail("key '{}' has an alias twice", key.key.name);
    paths.insert(key.key.name);
    for (const std::string& path : paths) {
      const auto [at, fresh] = meant.emplace(path, key.key.name);
      // Several keys may read one path of config.json; a name belongs to one key.
      const bool a_name = path == key.key.name || family.find_key(path) != nullptr;
      if (!fresh && a_name)
        fail("keys '{}' and '{}' are both called '{}'", at->second, key.key.name, path);
    }
  }
  std::map<std::string, std::string> written;
  for (const registry::ModelKey& key : family.keys()) {
    if (key.ignored || key.host) continue;
    const auto [at, fresh] = written.emplace(key.hf_name, key.key.name);
    if (!fresh)
      fail("keys '{}' and '{}' are both written to config.json as '{}'", at->second, key.key.name,
           key.hf_name);
  }
}

void check_odd_configs(const FamilySubject& subject) {
  const bool whole = subject.at_least(Level::full);
  for (const SmallModel& small : subject.models()) {
    subject.open(small);
    const registry::ModelConfig usual = subject.configure(small);
    for (const registry::ModelKey& key : subject.family().keys()) {
      if (key.ignored || key.host) continue;
      const config::Entry* entry = usual.values().find(key.key.name);
      for (const Value& value : odd_values(key.key, entry ? &entry->value : nullptr)) {
        const std::string what = fmt::format("{} = {}", key.key.name, config::to_toml(value));
        const std::string error =
            error_of(subject, with_value(small.source, key.key.name, value), what, whole);
        if (!error.empty() && !names_a_key(subject.family(), key.key.name, error))
          fail("{} is refused, and no key is named: {}", what, error);
      }
      const std::string error =
          error_of(subject, with_value(small.source, key.key.name, value_of_another_type(key.key)),
                   key.key.name + " of another type", false);
      if (error.find("model." + key.key.name) == error.npos)
        fail("{} of another type is not refused", key.key.name);
      if (key.key.required &&
          error_of(subject, without_value(small.source, key.key), "no " + key.key.name, false)
                  .find(fmt::format("missing key 'model.{}'", key.key.name)) == std::string::npos)
        fail("a model without the required '{}' is not refused", key.key.name);
    }
    if (!whole) return;  // the first model of the family
  }
}

void check_config_json(const FamilySubject& subject) {
  const registry::Family& family = subject.family();
  if (const std::string why = weights::why_unpublished(family.names()); !why.empty())
    skip("{}", why);
  for (const SmallModel& small : subject.models()) {
    const registry::ModelConfig config = subject.configure(small);
    if (!family.options(config).exports_as.empty()) skip("its exports belong to another family");
    const std::string json = weights::hf_config(
        family.names(), config, {.dtype = "float32", .bos_token = 1, .eos_token = 2});
    config::Raw raw = config::parse_json(json, "config.json", "model.");
    const registry::ModelConfig again = [&] {
      try {
        return family.configure(raw, "config.json");
      } catch (const UserError& refused) {
        fail("the config.json of model '{}' is not read back: {}", small.name, refused.what());
      }
    }();
    for (const config::Entry& entry : config.values().entries()) {
      const config::Entry* read = again.values().find(entry.key);
      const registry::ModelKey* key = family.find_key(entry.key);
      if (key && key->host) continue;
      if (!read || !(read->value == entry.value))
        fail("'{}' of model '{}' is {} and comes back from its config.json as {}", entry.key,
             small.name, config::to_toml(entry.value),
             read ? config::to_toml(read->value) : "nothing");
    }
    for (const std::string& unread : again.unread())
      if (!unread.starts_with("torch_dtype") && !unread.starts_with("bos_") &&
          !unread.starts_with("eos_"))
        fail("the config.json of model '{}' has a key that the family does not read: {}",
             small.name, unread);
  }
}

}  // namespace lamina::conformance
