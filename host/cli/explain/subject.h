// The model and phase that `lamina explain` shows.
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

// Settings from options, else from the run file, else defaults.
struct Subject {
  std::unique_ptr<decoder::Model> model;
  std::string phase;
  std::int64_t batch = 1;
  std::int64_t tokens = 1;    // per call or row
  std::int64_t capacity = 1;  // tokens of decode state
  DType dtype = DType::bf16;
  train::RematPolicy remat = train::find_remat_policy("none");
  bool segments = false;
  std::shared_ptr<const train::Task> task = train::next_token_task();
};

// Throws the errors of the file, of the model, or of the run's settings.
Subject find_subject(const Arguments& a);

// Calls `observer`, unless it is empty, with the traced graph and after every pass.
program::BoundProgram compile(const Subject& s, const Backend& backend,
                              const passes::Observer& observer);

// Two lines and an empty one.
std::string headline(const Subject& s);

}  // namespace lamina::cli
