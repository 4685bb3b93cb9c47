// The options that select a model's weights and their form in memory, and override its keys.
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

// The keys of [model] in --set and in the environment (LAMINA_MODEL__NAME).
config::Overrides model_overrides(const Arguments& a);

}  // namespace lamina::cli
