// --adapter, --weights and --packed: the choice of weights, and their form in memory.
#pragma once

#include "cli/shell/command.h"
#include "model/open.h"

namespace lamina::cli {

// --weights model|ema
Option weights_option();

// --packed
Option packed_option();

// The choice for a command with some of these options and adapter_option().
model::WeightChoice weight_choice(const Arguments& a);

}  // namespace lamina::cli
