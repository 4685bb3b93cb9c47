// Models as Hugging Face directories that are loaded before they get their name.
#pragma once

#include <optional>
#include <string>

#include "decoder/model.h"
#include "registry/discovery.h"
#include "runtime/backend.h"
#include "weights/publish/hf_export.h"

namespace lamina::model {

// Opens `directory`, which was just written: it is a model, and all its tensors are there in the
// right shapes. Throws what open_weights() and match_weights() do.
void check_that_it_loads(const std::string& directory, const registry::Catalog& plugins);

// weights::export_to_hf(), with that check.
weights::Exported export_checked(const decoder::Model& model, const std::string& from,
                                 const std::string& to, const weights::ExportOptions& options,
                                 const registry::Catalog& plugins);

struct ExportedModel {
  std::string directory;  // that the weights came from
  weights::Exported written;
};

// The model of a checkpoint, a run or a directory `path`, also of a family whose exports are
// another family's; with options.average its moving average. Errors: those of export_to_hf(); exit
// 2 for a model with an adapter; exit 4 where there are no weights, or no average of them.
ExportedModel export_model(const std::string& path, const std::string& to,
                           const weights::ExportOptions& options, const registry::Catalog& plugins,
                           const Backend& backend);

}  // namespace lamina::model
