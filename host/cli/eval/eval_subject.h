// The model that `lamina eval` measures, from its options.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "cli/shell/command.h"
#include "config/run_config.h"
#include "io/weight_files.h"
#include "model/load.h"

namespace lamina::cli {

struct EvalSubject {
  model::OpenedModel opened;
  std::shared_ptr<const io::WeightFiles> files;
  std::unique_ptr<text::Tokenizer> tokenizer;  // may be null with --ids and for a reference
  std::optional<config::RunConfig> run;        // for a run directory or a checkpoint
  DType dtype = DType::bf16;
  model::WeightChoice choice = {};  // the form of the weights

  // Calls `described` with the model, whose parameters have their storage; then reads the weights.
  model::Loaded load(const Device& device,
                     const std::function<void(const decoder::Model&)>& described = {}) &&;
};

// Throws UserError: no model, or two (exit 2); a model without weights, or without the tokenizer
// that texts need (exit 4).
EvalSubject find_eval_subject(const Arguments& a);

// Opens the model of --against as its files describe it. Throws UserError (exit 4) for a model
// without weights.
EvalSubject find_eval_reference(const Arguments& a);

}  // namespace lamina::cli
