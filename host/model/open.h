// Opens a model by a path: a Hugging Face directory, a GGUF file or a directory with one, a
// checkpoint, a run directory (its newest checkpoint), or a file of configs/models (without
// weights).
#pragma once

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "config/run_config.h"
#include "decoder/model.h"
#include "io/hf_directory.h"
#include "io/weight_files.h"
#include "model/gguf_source.h"
#include "model/place.h"
#include "registry/discovery.h"
#include "text/tokenizer.h"
#include "train/loop/run_directory.h"
#include "weights/quantise/quantise.h"

namespace lamina::model {

// Selects weights in a directory.
struct WeightChoice {
  std::string adapter = {};  // another directory, in PEFT's form
  bool average = false;      // the moving average of trained weights, if the checkpoint has one
  // Weights in blocks stay in blocks (weights::KeptBlocks::all). Absent: those with fast products
  // (KeptBlocks::fast); in the layout of compressed-tensors all, so that decoding equals `quantise`
  // with the original.
  std::optional<bool> packed = {};
  std::optional<weights::Quantisation> quantise = {};  // plain weights become blocks
  Workers workers = {};                                // read and round weights
  std::function<void()> between = {};                  // see Weights::load()
  config::Overrides overrides = {};                    // of keys "model.<name>"
};

struct OpenedModel {
  // The directory of weights and tokenizer, or the GGUF file with both; empty if only a config was
  // given.
  std::string directory;
  std::optional<io::HfDirectory> published = {};  // for a directory with config.json
  std::vector<std::int64_t> end_tokens = {};      // from a GGUF file, or beside a checkpoint
  std::string adapter = {};                       // the directory of its adapter; empty without one
  bool average = false;                           // see WeightChoice
  std::int64_t paired_width = 0;                  // see Description
  std::unique_ptr<decoder::Model> model;

  // Returns the files of the weights, with the adapter files of another directory, and with the
  // average replacing the weights it was computed from. REQUIRES: there are weights.
  std::shared_ptr<io::WeightFiles> weight_files() const;
};

// Sets the storage of parameters for runs of `compute`, as `choice` says; with `losses` also graphs
// of losses read blocks of the files. Weights::load() then reads them so. Errors: as
// weights::quantise().
void set_storage(decoder::Model& model, const io::WeightFiles& files, const WeightChoice& choice,
                 DType compute, bool losses = false);
// Likewise for a model that may have no weights. Warns if their files are incomplete.
void set_storage(OpenedModel& model, const WeightChoice& choice, DType compute);

// Selects the moving average as its weights. Errors (exit 4): there is none.
void use_average(OpenedModel& model);

// The description of a model, before its plugin has read it.
struct Description {
  config::ModelSource source;
  std::string directory;  // see OpenedModel
  std::optional<io::HfDirectory> published = {};
  std::vector<std::int64_t> end_tokens = {};
  std::string adapter = {};
  // The argument of WeightFiles::unpair_rows(); 0: none.
  std::int64_t paired_width = 0;
  int omitted_predictions = 0;  // prediction layers that make_of() left out
};

// Errors: as open(), except errors of plugins.
Description describe(const std::string& path, const registry::Catalog& plugins,
                     const config::Overrides& overrides = {}, const std::string& adapter = {},
                     WeightForm form = WeightForm::stored);

// Opens a model. Errors: exit 4 for a directory without a model, with its contents, and for a
// checkpoint of training with a damaged model.toml; exit 2 for an invalid config; exit 8 for
// plugins; io::Damaged for a checkpoint that differs from its manifest, except for values of
// tensors. A path with an adapter in PEFT's form opens its base model with it; `adapter` is one for
// another model. `overrides` sets keys of [model]. If the options do not define the compression of
// tokens, the directory's tokenizer does.
OpenedModel open(const std::string& path, const registry::Catalog& plugins,
                 const decoder::ModelOptions& options = {}, const config::Overrides& overrides = {},
                 const std::string& adapter = {});

// Likewise, for a directory that this program has written: without the messages that open() has
// logged about the same model before. `final_name` is the name that the directory will have.
OpenedModel reopen(const std::string& directory, const std::string& final_name,
                   const registry::Catalog& plugins);

// Opens a model with weights. Errors: also exit 4 if there are no weights, if `path` is a file that
// describes no model, or if there is no average.
OpenedModel open_weights(const std::string& path, const registry::Catalog& plugins,
                         const WeightChoice& choice = {});

// Returns the token compression for ModelOptions.
decoder::CompressedTokens compressed_tokens(const text::Tokenizer& tokenizer);

// Builds the model of a description that has been read already (a run file's).
decoder::Model make(const config::ModelSource& source, const registry::Catalog& plugins,
                    const decoder::ModelOptions& options = {});

// Like make(from.source), but without prediction layers if the weights have none, and in a
// multimodal model whose config.json does not say if the head is the token table, as the weights
// need; `from` is changed accordingly.
decoder::Model make_of(Description& from, const registry::Catalog& plugins,
                       const decoder::ModelOptions& options = {});

// True if training has removed the checkpoint, as it removes old ones while others read them. Such
// a checkpoint is not damaged.
bool is_gone(const std::string& checkpoint);

// Calls `use`, which reads checkpoints, until it succeeds, at most ten times. `was_removed` returns
// true after a failure if training has removed what was read.
template <typename Use, typename Removed>
auto retry_if_removed(const Use& use, const Removed& was_removed) {
  constexpr int kMaxAttempts = 10;
  for (int attempt = 1;; ++attempt) {
    try {
      return use();
    } catch (const std::exception&) {
      if (attempt == kMaxAttempts || !was_removed()) throw;
    }
  }
}

// Likewise for the files of `paths`: if the checkpoint of a run directory was removed, the newest
// one is opened instead.
template <typename Use>
auto while_training(std::span<const std::string> paths, const Use& use) {
  std::vector<std::string> newest;  // of the paths that are runs
  return retry_if_removed(
      [&] {
        newest.clear();
        for (const std::string& path : paths)
          if (std::string found = train::newest_checkpoint(path); !found.empty())
            newest.push_back(std::move(found));
        return use();
      },
      [&] { return std::ranges::any_of(newest, is_gone); });
}
template <typename Use>
auto while_training(const std::string& path, const Use& use) {
  return while_training(std::span(&path, 1), use);
}

// Returns the keys of config.json without effect: ModelConfig::unread() and idle().
std::vector<std::string> unused_keys(const decoder::Model& model);

// Logs them, for -v, and warns of those that change other models: ModelConfig::changing().
void note_unread(const decoder::Model& model);

// "alibi (config.json:7), bottleneck (config.json:9) and 3 more": the first `limit` of
// unused_keys().
std::string list_unread(const std::vector<std::string>& unread, std::size_t limit);

}  // namespace lamina::model
