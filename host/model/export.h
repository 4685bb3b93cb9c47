// Exports models as Hugging Face directories that are loaded before they get their final name.
#pragma once

#include <optional>
#include <string>

#include "decoder/model.h"
#include "registry/discovery.h"
#include "runtime/backend.h"
#include "weights/publish/hf_export.h"

namespace lamina::model {

// Opens `directory`, which was just written and gets the name `final_name`, and checks that all
// tensors exist with the right shapes. Throws the errors of open_weights() and match_weights().
void check_that_it_loads(const std::string& directory, const std::string& final_name,
                         const registry::Catalog& plugins);

// Returns a tensor of `written` that joins matrices which the family publishes apart; "" if there
// is none.
std::string joined_tensor(const decoder::Model& model, const weights::TensorMap& written);

// Calls weights::export_to_hf() with that check. If another family of `plugins` reads the published
// names of the model, config.json also names the model's family. Errors (exit 4): also if another
// family reads the export nevertheless.
weights::Exported export_checked(const decoder::Model& model, const std::string& from,
                                 const std::string& to, const weights::ExportOptions& options,
                                 const registry::Catalog& plugins);

struct ExportedModel {
  std::string directory;  // the directory of the weights
  weights::Exported written;
};

// Exports the model of a checkpoint, a run or a directory `path`, also of a family that exports as
// another; with options.average its moving average. Errors: as export_to_hf(); exit 2 for a
// model with an adapter; exit 4 if there are no weights, or no average.
ExportedModel export_model(const std::string& path, const std::string& to,
                           const weights::ExportOptions& options, const registry::Catalog& plugins,
                           const Backend& backend);

}  // namespace lamina::model
