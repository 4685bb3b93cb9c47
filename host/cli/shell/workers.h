// Uses the device's threads for work outside graphs: tokenizing, reading weights.
#pragma once

#include "cli/shell/machine.h"
#include "core/workers.h"

namespace lamina::cli {

// REQUIRES: the machine outlives the result.
Workers workers(const Machine& machine);

}  // namespace lamina::cli
