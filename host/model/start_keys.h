// Checks keys of [model] in a run with train.from.
#pragma once

#include "model/open.h"

namespace lamina::model {

// Values of [model] must equal the directory's: others would silently compute another
// function with the same weights. Keys that only training reads (dropout rates, weights of
// auxiliary losses) may differ, also keys that are valid only together; prediction layers may be
// removed, and train.fresh lists new tensors. `model` is the run's, `source` is described by
// `from`. Errors: exit 2 with the keys that change the model.
void check_start_keys(const config::RunConfig& run, const Description& from,
                      const registry::Catalog& plugins, const decoder::ModelOptions& options,
                      const decoder::Model& model, const decoder::Model& source);

}  // namespace lamina::model
