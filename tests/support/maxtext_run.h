// How a MaxText case trains, through the keys of a run file that say the same.
#pragma once

#include <string>

#include "config/run_config.h"
#include "core/json.h"

namespace lamina::testing {

// [train], [schedule] and [optimizer] of a case's settings, or of MaxText's where they say nothing.
config::RunConfig maxtext_run(JsonValue theirs);

// [train] and [schedule] alone.
config::RunConfig maxtext_schedule(JsonValue theirs);

// Keys of [optimizer] that clip queries and keys as a case does; "" where it does not.
std::string maxtext_qk_clip(JsonValue theirs);

}  // namespace lamina::testing
