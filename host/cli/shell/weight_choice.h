// --adapter and --weights: the choice of weights in a directory.
#pragma once

#include "cli/shell/command.h"
#include "model/open.h"

namespace lamina::cli {

// --weights model|ema
Option weights_option();

// The choice for a command with weights_option(), and perhaps with adapter_option().
model::WeightChoice weight_choice(const Arguments& a);

}  // namespace lamina::cli
