// A model with an adapter as one without, which computes the same.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "model/open.h"
#include "runtime/backend.h"
#include "weights/hf_export.h"

namespace lamina::model {

// Writes `path` (with `adapter` where it has none itself) as a Hugging Face directory `to`, in the
// form of the model that the adapter is of: weights + scale b a. `check` as in export_to_hf().
// Errors: those of open_weights() and export_to_hf(); exit 2 where there is no adapter.
weights::Exported merge_to_hf(const std::string& path, const std::string& adapter,
                              const std::string& to, std::optional<DType> dtype,
                              const registry::Catalog& plugins, const Backend& backend,
                              const std::function<void(const std::string&)>& check);

}  // namespace lamina::model
