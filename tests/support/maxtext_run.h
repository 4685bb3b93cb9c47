// How a MaxText case trains: the run file that `lamina config import` makes of its settings.
#pragma once

#include "config/run_config.h"
#include "core/json.h"

namespace lamina::testing {

// Imports the settings of a case; the model's may be an object "model" among them. The block of a
// case with single tensors keeps its query kernel unscaled.
config::RunConfig maxtext_run(JsonValue theirs);

}  // namespace lamina::testing
