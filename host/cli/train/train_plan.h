// Prints the plan of a run that is not started: `lamina train` --dry-run, --fit.
#pragma once

#include <cstddef>

#include "cli/shell/command.h"
#include "config/run_config.h"

namespace lamina::cli {

// Prints steps, memory and disk of the run on `num_devices` devices, or with --fit the lines for
// the run file with which it fits. Reads no weights and no data, writes nothing. Throws UserError:
// exit 7 if no settings fit, exit 2 for options that need a real run.
int show_train_plan(const Arguments& arguments, const config::RunConfig& run, const Device& device,
                    std::size_t num_devices);

// Throws UserError (exit 7) if a GPU has too little free memory for the run, or the host for the
// offloaded parts of `num_devices` GPUs. Reads no weights and no data.
void check_train_memory(const Arguments& arguments, const config::RunConfig& run,
                        const Device& device, std::size_t num_devices);

}  // namespace lamina::cli
