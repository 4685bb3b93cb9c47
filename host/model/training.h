// What a run file trains, and where that starts: train.from.
#pragma once

#include <memory>
#include <string>

#include "model/open.h"
#include "runtime/backend.h"
#include "train/loop/run.h"

namespace lamina::model {

// The model of a run file, to look at and not to compute with: [model], or with train.from what
// that directory describes, without the tokenizer that a compression of tokens would need. Errors:
// those of open(); exit 2 where family or [model] say otherwise than the directory, unless
// train.fresh names what is new.
std::unique_ptr<decoder::Model> open_trained(const config::RunConfig& run,
                                             const registry::Catalog& plugins);

struct Training {
  std::unique_ptr<decoder::Model> source;  // as the directory describes it; null without one
  std::unique_ptr<decoder::Model> model;
  train::Inherited inherited;
};

// With the weights that it starts from. `checkpoint`: the one that the run goes on from, "" for
// none; with one train.from is not read. Errors: also those of train::StartWeights and of
// open_teacher(); exit 2 where data.tokenizer gives tokens of the directory other ids.
Training open_training(const config::RunConfig& run, const registry::Catalog& plugins,
                       const std::string& checkpoint, const Backend& backend);

}  // namespace lamina::model
