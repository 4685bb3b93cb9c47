// The training of a MaxText case: the run file that `lamina config import` makes from its settings.
#pragma once

#include "config/run_config.h"
#include "core/json.h"

namespace lamina::testing {

// Imports the settings of a case; the model's settings may be an object "model" among them. In a
// case with single tensors the block keeps its query kernel unscaled.
config::RunConfig maxtext_run(JsonValue theirs);

}  // namespace lamina::testing
