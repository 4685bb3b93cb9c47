// Prints the plan of a run that is not started: `lamina train` --dry-run, --fit.
#pragma once

#include <vector>

#include "cli/shell/command.h"
#include "config/run_config.h"

namespace lamina::cli {

// Prints steps, memory and disk of the run on the devices, or with --fit the lines for the run file
// with which it fits. Reads no weights and a part of the data, writes nothing. Throws UserError:
// exit 7 if no settings fit, exit 2 for options that need a real run; for small data, which are
// read as a whole, also what the run would throw about them.
int show_train_plan(const Arguments& arguments, const config::RunConfig& run,
                    const std::vector<const Device*>& devices);

// Throws UserError (exit 7) if a GPU has too little free memory for the run, or the host for the
// offloaded parts of all GPUs. Reads no weights and no data.
void check_train_memory(const Arguments& arguments, const config::RunConfig& run,
                        const std::vector<const Device*>& devices);

}  // namespace lamina::cli
