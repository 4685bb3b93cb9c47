// How a MaxText case trains: the run file that `lamina config import` makes of its settings.
#pragma once

#include "config/run_config.h"
#include "core/json.h"

namespace lamina::testing {

// Of a case's settings; those of its model may be an object "model" among them. A case of single
// tensors is of a block that keeps its query kernel as it is.
config::RunConfig maxtext_run(JsonValue theirs);

}  // namespace lamina::testing
