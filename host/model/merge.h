// A model with an adapter as one without, which computes the same.
#pragma once

#include <optional>
#include <string>

#include "model/open.h"
#include "runtime/backend.h"
#include "weights/publish/hf_export.h"

namespace lamina::model {

// Writes `path` (with `adapter` where it has none itself) as a Hugging Face directory `to`, in the
// Writes `path` as a Hugging Face directory `to`, in the form of the model that the adapter is of:
// weights + scale b a. `choice` names an adapter where `path` has none itself. Errors: those of
// open_weights() and export_checked(); exit 2 where there is no adapter.
weights::Exported merge_to_hf(const std::string& path, const WeightChoice& choice,
                              const std::string& to, std::optional<DType> dtype,
                              const registry::Catalog& plugins, const Backend& backend);

}  // namespace lamina::model
