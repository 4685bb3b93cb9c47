// config.json of a model that was not read from one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "registry/manifest.h"
#include "registry/model_config.h"

namespace lamina::weights {

struct HfConfigExtras {
  std::string dtype;                      // of most tensors: "bfloat16"
  std::optional<std::int64_t> bos_token;  // of the tokenizer
  std::optional<std::int64_t> eos_token;
  std::optional<std::int64_t> pad_token;
};

// The family's keys under the names and paths that it exports, with model_type and architectures.
// An object below the top (rope_scaling) is left out where all its keys have their defaults; in
// others those are left out whose default of 0 leaves the choice to the reader. Keys that the
// original does not have are in the object "lamina", if they are not at their defaults. Zeros of
// keys that read null as 0 are written as null, ids of tokens that the tokenizer lacks as well.
// UserError (exit 4) when the family has no form at Hugging Face.
std::string hf_config(const registry::FamilyNames& names, const registry::ModelConfig& config,
                      const HfConfigExtras& extras);

}  // namespace lamina::weights
