// The models with which a family is checked: small enough for fast checks.
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
  config::ModelSource source;  // of one family
};

struct SmallModels {
  std::vector<SmallModel> models;
  std::string why_none;  // if there are none
};

// The folder with the descriptions of a plugin's small models: my_family.check beside
// my_family.lamina.so.
std::filesystem::path models_folder(const std::filesystem::path& plugin);

// The models of the family in `files` and in the plugin's folder; if there are none, models derived
// from its keys. Throws UserError for a description that cannot be read.
SmallModels small_models(const registry::Family& family, const std::filesystem::path& plugin,
                         std::span<const std::filesystem::path> files);

// Throws UserError (exit 2) if the plugin's file lists no family of that name, unless its list
// cannot be read.
void require_family_of(const std::filesystem::path& plugin, const std::string& family);

// Throws UserError (exit 2) if a description belongs to no family of the plugin's file, or to
// another than `only` (empty: all are checked), unless the file's list cannot be read.
void require_models_of(const std::filesystem::path& plugin,
                       std::span<const std::filesystem::path> files, const std::string& only);

// Sizes that families share by name get small values, required keys the smallest allowed; the
// number of layers is increased until every possible block occurs. Also with one depth of
// multi-token prediction, if the family has the key.
SmallModels derived_models(const registry::Family& family);

// The compression of a tokenizer some of whose tokens differ only in spelling: a description has
// none.
decoder::CompressedTokens tokens_of_two(std::int64_t vocabulary);

}  // namespace lamina::conformance
