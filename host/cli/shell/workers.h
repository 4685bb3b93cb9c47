// The device's threads for work that is none of a graph: tokenizing, reading weights.
#pragma once

#include "cli/shell/machine.h"
#include "core/workers.h"

namespace lamina::cli {

// REQUIRES: the machine outlives it.
Workers workers(const Machine& machine);

}  // namespace lamina::cli
