// Loads the model of a command that computes with it.
#pragma once

#include <functional>
#include <string>

#include "cli/shell/command.h"
#include "device/device.h"
#include "model/load.h"

namespace lamina::cli {

// Calls model::load() for `path` with the plugins and threads of the command line. Threads are
// pinned after reading: threads started by a pinned thread would share its single CPU. `described`
// is called before weights are read. A signal to stop ends reading that continues after the call
// (Weights::load()): programs throw StopAsked.
model::Loaded load_model(const std::string& path, const Globals& globals, DType dtype,
                         const Device& device, const model::WeightChoice& choice = {},
                         const std::function<void(const decoder::Model&)>& described = {});

}  // namespace lamina::cli
