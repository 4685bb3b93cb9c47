// The mean of several checkpoints of one model.
#pragma once

#include <span>
#include <string>

#include "registry/discovery.h"
#include "weights/publish/hf_export.h"

namespace lamina::model {

// Writes the directory `to` with the model of the first of `paths` (checkpoints, runs or Hugging
// Face directories with the same tensors): its description, its side files, and of each tensor the
// mean over all paths, summed in f64 in their order and rounded once to the tensor's type.
// Tensors of integers must be the same in all. Nothing of a training's state goes along. It is
// loaded before it gets its name. Errors: exit 2 where `to` exists, or a model has an adapter; exit
// 4 for a tensor that is missing, or has another shape or type; what cannot be averaged; damage.
weights::Exported average_models(std::span<const std::string> paths, const std::string& to,
                                 const registry::Catalog& plugins);

}  // namespace lamina::model
