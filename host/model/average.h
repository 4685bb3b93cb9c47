// Averages several checkpoints of one model.
#pragma once

#include <span>
#include <string>

#include "registry/discovery.h"
#include "weights/publish/hf_export.h"

namespace lamina::model {

// Writes the directory `to` with the model of the first of `paths` (checkpoints, runs or Hugging
// Face directories with the same tensors): its description, its side files, and for each tensor the
// mean over all paths, summed in f64 in their order and rounded once to the tensor's type.
// Quantised weights and tensors of integers must be equal in all, and are copied. The state of
// training is not copied. The result is loaded before it gets its final name. Errors: exit 2 if
// `to` exists, or a model has an adapter; exit 4 if a tensor is missing, has another shape or type,
// cannot be averaged, or is damaged.
weights::Exported average_models(std::span<const std::string> paths, const std::string& to,
                                 const registry::Catalog& plugins);

}  // namespace lamina::model
