// The model that a run file trains, and its initial weights: train.from.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/open.h"
#include "runtime/backend.h"
#include "text/tokenizer.h"
#include "train/loop/run.h"

namespace lamina::model {

// Returns the model of a run file for inspection, not for computation: [model], or with train.from
// the model of that directory, without the tokenizer that a compression of tokens would need.
// `checkpoint` as for open_training(). Errors: as open(); exit 2 if family or [model] contradict
// the directory, unless train.fresh lists the new tensors.
std::unique_ptr<decoder::Model> open_trained(const config::RunConfig& run,
                                             const registry::Catalog& plugins,
                                             const std::string& checkpoint = {});

// Returns [data] as the run would begin with it: a tokenizer that is train.from is resolved to its
// files, or to the checkpoint that it resumes from. Errors: as model_files().
config::DataSection data_section(const config::RunConfig& run, const std::string& checkpoint = {});

// Returns the number of ids that the data of a run may have, for commands that read them without
// the model: the tokenizer's, but the model's for files of ids, whose stores depend on it. Errors:
// as open_trained().
std::int64_t data_vocab_size(const config::RunConfig& run, const registry::Catalog& plugins,
                             const text::Tokenizer& tokenizer);

struct Training {
  std::unique_ptr<decoder::Model> source;  // as the directory describes it; null without one
  // The model of the run's family whose tensor map reads the directory; null if that family is the
  // source's.
  std::unique_ptr<decoder::Model> translated;
  std::unique_ptr<decoder::Model> model;
  train::Inherited inherited;
};

// Opens the model with its initial weights. `checkpoint`: the one that the run resumes from, or "";
// if given, train.from is not read. `backends` are the devices of the run. Errors: also as
// train::StartWeights and open_teachers(); exit 2 if data.tokenizer assigns other ids to tokens of
// the directory.
Training open_training(const config::RunConfig& run, const registry::Catalog& plugins,
                       const std::string& checkpoint, const std::vector<const Backend*>& backends);

}  // namespace lamina::model
