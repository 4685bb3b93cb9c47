#include "registry/model_config.h"

#include <algorithm>
#include <map>
#include <new>

#include "registry/abi_read.h"

namespace lamina::registry {
namespace {

// A name may also be declared as ignored, beside the key of that name.
const ModelKey* find_key(const std::vector<ModelKey>& keys, std::string_view name) {
  const auto at = std::find_if(keys.begin(), keys.end(), [&](const ModelKey& key) {
    return key.key.name == name && !key.ignored;
  });
  return at == keys.end() ? nullptr : &*at;
}

// Returns the context length after rope_scaling; 0 = it does not change it. With other kinds than
// these, max_position_embeddings is already the final length.
std::int64_t stretched_positions(const config::Table& values) {
  const config::Entry* type = values.find("rope_scaling.rope_type");
  const config::Entry* factor = values.find("rope_scaling.factor");
  const config::Entry* original = values.find("rope_scaling.original_max_position_embeddings");
  if (!type || !factor || !original) return 0;
  if (type->value != config::Value("yarn") && type->value != config::Value("dynamic")) return 0;
  const auto* tokens = original->value.get_if<std::int64_t>();
  const auto* times = factor->value.get_if<double>();
  if (!tokens || !times) return 0;
  return static_cast<std::int64_t>(
      std::min(static_cast<double>(*tokens) * *times, static_cast<double>(kMaxSize)));
}

}  // namespace

const std::int64_t* beyond_limits(const config::Value& value) {
  if (const auto* number = value.get_if<std::int64_t>())
    return *number > kMaxSize || *number < -kMaxSize ? number : nullptr;
  if (const auto* list = value.get_if<config::List>())
    for (const config::Value& element : *list)
      if (const std::int64_t* number = beyond_limits(element)) return number;
  return nullptr;
}

const char* ModelKey::none_word() const {
  return std::ranges::find(key.choices, "none") == key.choices.end() ? "" : "none";
}

ModelConfig::ModelConfig(std::shared_ptr<const std::vector<ModelKey>> keys, config::Table values,
                         UnusedKeys unused, std::string where, bool in_wrapper)
    : data_(std::make_shared<Data>(Data{std::move(keys), std::move(values), std::move(unused),
                                        std::move(where), in_wrapper})) {}

std::optional<std::int64_t> ModelConfig::max_positions() const {
  const config::Entry* entry = values().find(LAMINA_CONFIG_MAX_POSITIONS);
  const auto* value = entry ? entry->value.get_if<std::int64_t>() : nullptr;
  return value ? std::optional(std::max(*value, stretched_positions(values()))) : std::nullopt;
}

bool ModelConfig::is_host_key(std::string_view name) const {
  const ModelKey* key = find_key(keys(), name);
  return key != nullptr && key->host;
}

double ModelConfig::factor(std::string_view key) const {
  return values().find(key) ? values().number(key) : 1.0;
}

std::string ModelConfig::describe(std::string_view key) const {
  const config::Entry* entry = values().find(key);
  return entry ? fmt::format("{} = {} ({})", key, config::to_toml(entry->value), entry->origin.text)
               : fmt::format("{} is not set", key);
}

struct ConfigView::Impl : lamina_config {
  ModelConfig config;
  std::vector<Setting> overrides;
  std::map<std::string, abi::StoredValue, std::less<>> stored;
  std::vector<std::string> read;
  std::string unknown;

  Impl(const ModelConfig& values, std::span<const Setting> changed)
      : config(values), overrides(changed.begin(), changed.end()) {}

  const config::Value* find(std::string_view key) const {
    for (const Setting& setting : overrides)
      if (setting.key == key) return &setting.value;
    const config::Entry* entry = config.values().find(key);
    return entry ? &entry->value : nullptr;
  }

  lamina_status_t get(std::string_view key, lamina_value_t* out) {
    const ModelKey* declared = find_key(config.keys(), key);
    if (!declared || declared->host) {
      if (unknown.empty()) unknown = key;
      return LAMINA_ERROR_NOT_FOUND;
    }
    if (std::find(read.begin(), read.end(), key) == read.end()) read.emplace_back(key);
    const config::Value* value = find(key);
    if (!value) {
      *out = {};
      return LAMINA_OK;
    }
    auto at = stored.find(key);
    if (at == stored.end()) at = stored.try_emplace(std::string(key), *value, declared->kind).first;
    *out = at->second.get();
    return LAMINA_OK;
  }
};

namespace {

lamina_status_t config_get(const lamina_config_t* config, lamina_str_t key, lamina_value_t* out) {
  try {
    if (config == nullptr || out == nullptr) return LAMINA_ERROR_ARGUMENT;
    // The contract passes pointers to const; every view belongs to one call on one thread.
    return static_cast<ConfigView::Impl*>(const_cast<lamina_config_t*>(config))
        ->get(abi::text(key, "a config key"), out);
  } catch (const abi::ContractError& error) {
    return error.status();
  } catch (const std::bad_alloc&) {
    return LAMINA_ERROR_MEMORY;
  } catch (...) {
    return LAMINA_ERROR_INTERNAL;
  }
}

constexpr lamina_config_api_t kConfigApi = {
    .size = sizeof(lamina_config_api_t), .abi_minor = LAMINA_ABI_MINOR, .get = config_get};

}  // namespace

ConfigView::ConfigView(const ModelConfig& config, std::span<const Setting> overrides)
    : impl_(std::make_unique<Impl>(config, overrides)) {
  impl_->api = &kConfigApi;
}
ConfigView::~ConfigView() = default;

const lamina_config* ConfigView::handle() const { return impl_.get(); }
const std::vector<std::string>& ConfigView::keys_read() const { return impl_->read; }
const std::string& ConfigView::unknown_key() const { return impl_->unknown; }

const config::Value* ConfigView::find(std::string_view key) const { return impl_->find(key); }

bool ConfigView::is_given(std::string_view key) const {
  for (const Setting& setting : impl_->overrides)
    if (setting.key == key) return true;
  const config::Entry* entry = impl_->config.values().find(key);
  return entry && entry->origin.kind != config::Origin::Kind::preset;
}

std::string ConfigView::describe(const std::string& key) const {
  for (const Setting& setting : impl_->overrides)
    if (setting.key == key)
      return fmt::format("{} = {} (this position of the plan)", key,
                         config::to_toml(setting.value));
  return impl_->config.describe(key);
}

}  // namespace lamina::registry
