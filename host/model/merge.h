// Merges the adapter of a model into its weights.
#pragma once

#include <optional>
#include <string>

#include "model/open.h"
#include "runtime/backend.h"
#include "weights/publish/hf_export.h"

namespace lamina::model {

// Writes the model `path` as a Hugging Face directory `to`, in the form of the adapter's base
// model: weights + scale b a. Without `dtype` tensors have the types of the base, bfloat16 for
// compressed weights; a GGUF file as base gives one type for all. `choice` gives an adapter if
// `path` has none. Errors: as open_weights() and export_checked(); exit 2 if there is no adapter.
weights::Exported merge_to_hf(const std::string& path, const WeightChoice& choice,
                              const std::string& to, std::optional<DType> dtype,
                              const registry::Catalog& plugins, const Backend& backend);

}  // namespace lamina::model
