// The config.json of a model that was not read from one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/json.h"
#include "registry/manifest.h"
#include "registry/model_config.h"

namespace lamina::weights {

struct HfConfigExtras {
  std::string dtype;                      // of most tensors: "bfloat16"
  std::optional<std::int64_t> bos_token;  // of the tokenizer
  std::optional<std::int64_t> eos_token;
  std::optional<std::int64_t> pad_token;
};

// Returns the family's keys under the names and paths of its exports, with model_type and
// architectures. A nested object (rope_scaling) is omitted if all its keys have their defaults; in
// other objects, keys whose default 0 means that the reader chooses are omitted. Keys that the
// original does not have are in the object "lamina", unless they have their defaults. Zeros of keys
// that read null as 0 are written as null, and so are ids of tokens that the tokenizer does not
// have. UserError (exit 4) for a reason of why_unpublished().
std::string hf_config(const registry::FamilyNames& names, const registry::ModelConfig& config,
                      const HfConfigExtras& extras);

// Returns the text of `config`, a config.json, with the family's name in the object "lamina".
std::string with_family(const JsonValue& config, std::string_view family);

// The reason why a fresh model of the family has no config.json that others read: its plugin names
// no model_type or architecture, or only the architecture of a model with encoders, which a fresh
// model lacks. Empty where there is none.
std::string why_unpublished(const registry::FamilyNames& names);

}  // namespace lamina::weights
