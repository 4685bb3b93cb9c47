// What `lamina explain` looks at: a model in one phase.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cli/shell/command.h"
#include "decoder/model.h"
#include "passes/pipeline.h"
#include "program/bound_program.h"
#include "train/loop/remat_policies.h"
#include "train/loop/task.h"

namespace lamina::cli {

// From the run file or from defaults, and from options.
struct Subject {
  std::unique_ptr<decoder::Model> model;
  std::string phase;
  std::int64_t batch = 1;
  std::int64_t tokens = 1;    // of a call or of a row
  std::int64_t capacity = 1;  // of decode state
  DType dtype = DType::bf16;
  train::RematPolicy remat = train::find_remat_policy("none");
  bool segments = false;
  std::shared_ptr<const train::Task> task = train::next_token_task();
};

// Of the file that is named. Errors: those of the file, of the model, or of the run's settings.
Subject find_subject(const Arguments& a);

// The observer, if there is one, sees the graph as traced and after every pass.
program::BoundProgram compile(const Subject& s, const Backend& backend,
                              const passes::Observer& observer);

// Two lines and an empty one.
std::string headline(const Subject& s);

}  // namespace lamina::cli
