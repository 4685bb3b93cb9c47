// The [model] keys that a family declares, and their final values for one model.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/key.h"
#include "config/value.h"
#include "registry/plan.h"

struct lamina_config;

namespace lamina::registry {

// A declared key with properties that config::Key does not have.
struct ModelKey {
  config::Key key;
  std::uint32_t kind = 0;  // LAMINA_KIND_*
  // The key whose value is the default; if there is a default, too, the value of a null in
  // config.json. Empty = none.
  std::string same_as;
  std::string hf_name;        // path in an exported config.json
  bool json_only = false;     // allowed in config.json, not in [model]
  bool ignored = false;       // known in config.json, without effect
  bool null_is_zero = false;  // null in config.json means 0, false or empty
  bool per_layer = false;     // a list with one element per layer
  bool host = false;          // declared by the host for every family; see config/model_keys.h

  // Returns the string for null in config.json: "none" if it is a choice, else "".
  const char* none_word() const;
};

// Keys of a config.json that have no effect here.
struct UnusedKeys {
  std::vector<std::string> unknown;   // see unknown_keys() in json_keys.h
  std::vector<std::string> idle;      // keys of the family without effect, with places and reasons
  std::vector<std::string> changing;  // see changing_keys() in json_keys.h
  std::vector<std::string> training;  // see training_differences() there
};

// Final values of the keys of one model. Cheap to copy.
class ModelConfig {
 public:
  // `in_wrapper`: the config.json belongs to a multimodal model.
  ModelConfig(std::shared_ptr<const std::vector<ModelKey>> keys, config::Table values,
              UnusedKeys unused, std::string where, bool in_wrapper = false);

  const config::Table& values() const { return data_->values; }
  const std::vector<ModelKey>& keys() const { return *data_->keys; }
  // Keys of config.json that neither the family nor the host knows, with their places, sorted.
  const std::vector<std::string>& unread() const { return data_->unused.unknown; }
  // Keys of config.json that the family knows and that have no effect in this model, with places
  // and reasons.
  const std::vector<std::string>& idle() const { return data_->unused.idle; }
  // The unread() keys that change the results of other models: "'alibi' = true (config.json:3)".
  const std::vector<std::string>& changing() const { return data_->unused.changing; }
  // Warnings for a training run: effects in the original training that this program does not have.
  const std::vector<std::string>& training_differences() const { return data_->unused.training; }
  // The file (or run file) that describes the model.
  const std::string& where() const { return data_->where; }
  // True if the model is part of a larger one, whose config.json has it as text_config: the
  // checkpoint may contain other parts.
  bool in_wrapper() const { return data_->in_wrapper; }

  // Returns whether the key is declared by the host, not by the family.
  bool is_host_key(std::string_view name) const;

  // Values of keys that the host reads.
  std::int64_t vocab_size() const { return values().integer("vocab_size"); }
  std::int64_t hidden_size() const { return values().integer("hidden_size"); }
  std::int64_t num_layers() const { return values().integer("num_hidden_layers"); }
  // Returns the value of a key that multiplies something; 1 if `key` is "" or has no value.
  // REQUIRES: the key is a number.
  double factor(std::string_view key) const;
  // Returns the maximum sequence length of the model in tokens, extended by yarn or dynamic
  // scaling; nothing if unknown.
  std::optional<std::int64_t> max_positions() const;

  // "head_dim = 128 (config.json:7)"
  std::string describe(std::string_view key) const;

 private:
  struct Data {
    std::shared_ptr<const std::vector<ModelKey>> keys;
    config::Table values;
    UnusedKeys unused;
    std::string where;
    bool in_wrapper;
  };
  std::shared_ptr<const Data> data_;  // shared by copies
};

// Limit of sizes, so that products of sizes fit into 64 bits.
inline constexpr std::int64_t kMaxSize = std::numeric_limits<std::int32_t>::max();
// Returns the first integer of the value whose magnitude is larger; null if there is none.
const std::int64_t* beyond_limits(const config::Value& value);

// The values as a plugin reads them through the C contract, with `overrides` first. One object per
// call; records which keys were read.
class ConfigView {
 public:
  explicit ConfigView(const ModelConfig& config, std::span<const Setting> overrides = {});
  ~ConfigView();
  ConfigView(const ConfigView&) = delete;
  ConfigView& operator=(const ConfigView&) = delete;

  const lamina_config* handle() const;
  // Keys that the plugin has read so far, in order, each once.
  const std::vector<std::string>& keys_read() const;
  // Returns the value that the plugin reads; null if there is none.
  const config::Value* find(std::string_view key) const;
  // Returns whether a file, an option or the plan gives the value: it is no default and not
  // derived.
  bool is_given(std::string_view key) const;
  // Returns "head_dim = 128 (config.json:7)", with an override if there is one.
  std::string describe(const std::string& key) const;
  // The first key that was read but is not declared; "" if there is none.
  const std::string& unknown_key() const;

  struct Impl;  // the target of the plugin's pointer

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace lamina::registry
