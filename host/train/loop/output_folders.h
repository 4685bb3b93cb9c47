// Checks the folders that a run writes, before it writes anything.
#pragma once

#include "config/run_config.h"

namespace lamina::train {

// UserError (exit 2) if run.out or data.store is among the checkpoints of a run, if run.out is a
// directory with a model, or if the data contain one of them: the files of this run would be read
// as data the next time.
void check_output_folders(const config::RunConfig& run);

}  // namespace lamina::train
