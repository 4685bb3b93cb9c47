// From what -m names to a model: a Hugging Face directory, a checkpoint, a run directory (its
// newest checkpoint), or a file of configs/models (then without weights).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/command.h"
#include "config/run_config.h"
#include "decoder/model.h"
#include "io/hf_directory.h"
#include "registry/discovery.h"
#include "text/tokenizer.h"

namespace lamina::cli {

struct OpenedModel {
  std::string directory;  // of weights and tokenizer; empty when only a config was given
  std::optional<io::HfDirectory> published = {};  // of a directory with config.json
  std::unique_ptr<decoder::Model> model;
};

// Errors: exit 4 for a directory that holds no model, with what is there; exit 2 for a config that
// is wrong; exit 8 for plugins. `overrides`: "model.key=value". Where the options do not say how
// tokens are compressed, the directory's tokenizer does.
OpenedModel open_model(const std::string& path, const Globals& globals,
                       const decoder::ModelOptions& options = {},
                       const std::vector<std::string>& overrides = {});

// What ModelOptions asks of a tokenizer.
decoder::CompressedTokens compressed_tokens(const text::Tokenizer& tokenizer);

// The model of a description that has been read already (a run file's).
decoder::Model make_model(const config::ModelSource& source, const Globals& globals,
                          const decoder::ModelOptions& options = {});

// Whether `path` is a run file: a .toml with anything but `family` and [model].
bool is_run_file(const std::string& path);

// For commands that take a run file or a model: UserError (exit 2) where there is nothing at
// `path`.
void require_description(const std::string& path);

// The directory with weights that `path` stands for: itself, or the newest checkpoint in it.
std::string resolve_model_directory(const std::string& path);

// The plugins that the options and the environment lead to, looked for once.
const registry::Catalog& plugin_catalog(const Globals& globals);

}  // namespace lamina::cli
