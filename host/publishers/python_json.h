// JSON files that Python's json module writes: config.json, generation_config.json,
// tokenizer_config.json and others beside them.
#pragma once

#include "core/json.h"

namespace lamina::publishers {

// Errors are of class checkpoint; Infinity and NaN are read.
inline constexpr JsonOptions kPythonJson = {.code = ExitCode::checkpoint, .infinite_numbers = true};

}  // namespace lamina::publishers
