// The model of a command that computes with it.
#pragma once

#include <string>

#include "cli/shell/command.h"
#include "cli/shell/machine.h"
#include "model/load.h"

namespace lamina::cli {

// model::load() of `path` with the plugins and threads that the command line says. Threads are
// pinned once all is read: those that reading starts would get the one CPU of a pinned starter.
model::Loaded load_model(const std::string& path, const Globals& globals, DType dtype,
                         const Machine& machine, const model::WeightChoice& choice = {});

}  // namespace lamina::cli
