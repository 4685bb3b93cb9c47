// The models that a family is checked with: small enough that a check takes no time.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "decoder/model.h"
#include "registry/family.h"

namespace lamina::conformance {

struct SmallModel {
  std::string name;            // "mistral_predicts", "derived"
  config::ModelSource source;  // of a family
};

struct SmallModels {
  std::vector<SmallModel> models;
  std::string why_none;  // where there are none
};

// The folder with the descriptions of a plugin's small models: my_family.check beside
// my_family.lamina.so.
std::filesystem::path models_folder(const std::filesystem::path& plugin);

// Those of `files` and of the plugin's folder that are of the family; where there are none, some
// that are derived from its keys. Throws UserError for a description that cannot be read.
SmallModels small_models(const registry::Family& family, const std::filesystem::path& plugin,
                         std::span<const std::filesystem::path> files);

// Throws UserError (exit 2) where a description is of no family of the plugin's file, as far as
// that can be read.
void require_models_of(const std::filesystem::path& plugin,
                       std::span<const std::filesystem::path> files);

// Sizes that families share by name get small values, required keys the least that they allow; as
// many layers as it takes until every block occurs that can. Also with one depth of multi-token
// prediction, where the family has the key.
SmallModels derived_models(const registry::Family& family);

// Of a tokenizer some of whose tokens are the same but for spelling: a description has none.
decoder::CompressedTokens tokens_of_two(std::int64_t vocabulary);

}  // namespace lamina::conformance
