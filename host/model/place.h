// Classifies the path of a model, for every command.
#pragma once

#include <string>
#include <variant>

namespace lamina::model {

// An adapter in PEFT's form without a model, and the model that it refers to.
struct AdapterPlace {
  std::string directory;
  std::string base;
};

struct GgufPlace {
  std::string file;  // the first one of several
};

// A Hugging Face directory, a checkpoint, or the newest checkpoint of a run directory.
struct DirectoryPlace {
  std::string directory;
  bool has_toml = false;     // model.toml, as training writes it
  bool has_config = false;   // config.json, as published
  bool has_adapter = false;  // an adapter beside its model
};

// A file that describes a model without weights.
struct FilePlace {
  std::string file;
};

using ModelPlace = std::variant<AdapterPlace, GgufPlace, DirectoryPlace, FilePlace>;

// Errors (exit 4): a directory without a model, with its contents; an adapter whose model does not
// exist.
ModelPlace classify(const std::string& path);

// Errors (exit 2): a file in TOML that cannot be opened, eg: a link to itself.
void check_description(const std::string& path);

// Returns whether a directory has an adapter in PEFT's form and no model.
bool is_adapter(const std::string& path);

// Returns the directory of an adapter in PEFT's form to which `path` refers: itself, or the newest
// or the best checkpoint of a run. Errors (exit 4): it has no adapter.
std::string adapter_directory(const std::string& path);

// Returns the model that a PEFT adapter refers to, for a path with an adapter and no model; else
// "". Errors (exit 4): that model does not exist.
std::string base_of_adapter(const std::string& path);

// Returns the directory or GGUF file with the weights and the tokenizer of a model: the newest
// checkpoint of a run, the files of the model that an adapter refers to, else `path`. Errors: as
// classify().
std::string model_files(const std::string& path);

// Likewise for a tokenizer alone. Returns `path` if there is no other place to look.
std::string tokenizer_files(const std::string& path);

}  // namespace lamina::model
