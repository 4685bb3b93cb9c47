// The options that select a model's weights and their form in memory, and override its keys.
#pragma once

#include "cli/shell/command.h"
#include "model/open.h"

namespace lamina::cli {

// --weights model|ema
Option weights_option();

// --packed
Option packed_option();

// --quantize FORMAT
Option quantize_option();
// --quantize-rule PATTERN=FORMAT
Option quantize_rule_option();
// "int8, int4, ..", for help.
std::string quantize_formats();
// Returns their values; `format` is the name of the first option. UserError (exit 2): an unknown
// format, an invalid rule, rules alone.
std::optional<weights::Quantisation> quantisation(const Arguments& a,
                                                  const std::string& format = "quantize");

// Returns the keys of [train] that --quantize and --quantize-rule set.
std::vector<config::OptionSetting> quantise_settings(const Arguments& a);

// UserError (exit 2) for --quantize together with `training`, eg: "--phase train".
void refuse_quantising(const Arguments& a, const std::string& training);
// --kv-dtype: sets the key model.kv_dtype.
Option kv_dtype_option();
// Says which decode state --kv-dtype leaves in its own type, if the option is given.
void note_plain_states(const Arguments& a, const decoder::Model& model, DType dtype);

// Values of --set, of --kv-dtype and of the environment.
config::Overrides overrides_of(const Arguments& a);

// The choice for a command with some of these options and adapter_option().
model::WeightChoice weight_choice(const Arguments& a);

// Likewise, but of the environment only keys of [model] (LAMINA_MODEL__NAME).
config::Overrides model_overrides(const Arguments& a);

}  // namespace lamina::cli
