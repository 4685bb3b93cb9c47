// From a path to a model: a Hugging Face directory, a GGUF file or a directory with one, a
// checkpoint, a run directory (its newest checkpoint), or a file of configs/models (then without
// weights).
#pragma once

#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "decoder/model.h"
#include "io/hf_directory.h"
#include "io/weight_files.h"
#include "registry/discovery.h"
#include "text/tokenizer.h"
#include "train/loop/run_directory.h"

namespace lamina::model {

// Which weights of a directory are meant.
struct WeightChoice {
  std::string adapter = {};  // of another directory, in PEFT's form
  bool average = false;      // the moving average of what learned, which a checkpoint may have
};

struct OpenedModel {
  // Of weights and tokenizer, or the GGUF file with both; empty when only a config was given.
  std::string directory;
  std::optional<io::HfDirectory> published = {};  // of a directory with config.json
  std::vector<std::int64_t> end_tokens = {};      // of a GGUF file, or beside a checkpoint
  std::string adapter = {};                       // the directory of its adapter; empty without one
  bool average = false;                           // as in WeightChoice
  std::int64_t paired_width = 0;                  // as in Description
  std::unique_ptr<decoder::Model> model;

  // The files of the weights, with those of an adapter of another directory, and with the average
  // in place of what it is of. REQUIRES: there are weights.
  std::shared_ptr<io::WeightFiles> weight_files() const;
};

// From now on its weights are the moving average. Errors (exit 4): there is none.
void use_average(OpenedModel& model);

// Where a model is described, before its plugin has read it.
struct Description {
  config::ModelSource source;
  std::string directory;  // as in OpenedModel
  std::optional<io::HfDirectory> published = {};
  std::vector<std::int64_t> end_tokens = {};
  std::string adapter = {};
  // What WeightFiles::unpair_rows() is to be told; 0: nothing.
  std::int64_t paired_width = 0;
};

// Whether the model is that of the weights as a GGUF file has them, which can be used where they
// are, or as they were published, which what is made of them has to fit: an adapter's, a trained
// model.
enum class WeightForm { stored, published };

// The model that an adapter in PEFT's form names, for a path with such an adapter and no model;
// else empty. Errors (exit 4): that model is not here.
std::string base_of_adapter(const std::string& path);

// The errors of open(), but for those of plugins.
Description describe(const std::string& path, const registry::Catalog& plugins,
                     const std::vector<std::string>& overrides = {},
                     const std::string& adapter = {}, WeightForm form = WeightForm::stored);

// Errors: exit 4 for a directory that holds no model, with what is there, and for a checkpoint of
// training with a damaged model.toml; exit 2 for a config that is wrong; exit 8 for plugins;
// io::Damaged for a checkpoint whose files, values of tensors aside, are not as its manifest says.
// An adapter in PEFT's form stands for the model that it names with it; `adapter` is one for
// another model. `overrides`: "model.key=value". Where the options do not say how tokens are
// compressed, the directory's tokenizer does.
OpenedModel open(const std::string& path, const registry::Catalog& plugins,
                 const decoder::ModelOptions& options = {},
                 const std::vector<std::string>& overrides = {}, const std::string& adapter = {});

// Likewise, to compute with. Errors: exit 4 also where there are no weights, or `path` is a file
// that describes no model, or there is no average of them.
OpenedModel open_weights(const std::string& path, const registry::Catalog& plugins,
                         const WeightChoice& choice = {});

// What ModelOptions asks of a tokenizer.
decoder::CompressedTokens compressed_tokens(const text::Tokenizer& tokenizer);

// The model of a description that has been read already (a run file's).
decoder::Model make(const config::ModelSource& source, const registry::Catalog& plugins,
                    const decoder::ModelOptions& options = {});

// As make(from.source), without prediction layers where the weights have none of them: then
// `from` describes it so, too.
decoder::Model make_of(Description& from, const registry::Catalog& plugins,
                       const decoder::ModelOptions& options = {});

// Calls `use`, which opens what `path` leads to, until it ends well. Training removes old
// checkpoints while others read them: where that took away the one that a run directory led to, the
// newest is looked for again.
template <typename Use>
auto while_training(const std::string& path, const Use& use) {
  constexpr int kMaxAttempts = 10;
  for (int attempt = 1;; ++attempt) {
    const std::string directory = train::newest_checkpoint(path);
    try {
      return use();
    } catch (const std::exception&) {
      if (attempt == kMaxAttempts || directory.empty() || std::filesystem::exists(directory)) throw;
    }
  }
}

// Logs them, for -v.
void note_unread(const decoder::Model& model);

// "alibi (config.json:7), bottleneck (config.json:9) and 3 more": the first `limit` of
// ModelConfig::unread().
std::string list_unread(const std::vector<std::string>& unread, std::size_t limit);

}  // namespace lamina::model
