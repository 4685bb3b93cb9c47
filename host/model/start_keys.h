// Keys of [model] beside train.from.
#pragma once

#include "model/open.h"

namespace lamina::model {

// Values of [model] must be those of the directory: other ones would make another function of the
// same weights, silently. What only training reads (rates of dropout, weights of auxiliary losses)
// is the run's choice, fewer prediction layers are, too, and train.fresh names what is new.
// `model` is the run's, `source` what `from` describes. Errors: exit 2 with the keys that change
// the model.
void check_start_keys(const config::RunConfig& run, const Description& from,
                      const registry::Catalog& plugins, const decoder::ModelOptions& options,
                      const decoder::Model& model, const decoder::Model& source);

}  // namespace lamina::model
