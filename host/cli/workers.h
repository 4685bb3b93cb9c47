// The device's threads for work that is none of a graph: tokenizing.
#pragma once

#include "cli/machine.h"
#include "data/tokenize.h"

namespace lamina::cli {

// REQUIRES: the machine outlives it.
data::Workers workers(const Machine& machine);

}  // namespace lamina::cli
