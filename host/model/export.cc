#include "model/export.h"

#include "core/error.h"
#include "model/fold.h"
#include "model/open.h"
#include "weights/match/tensor_map.h"

namespace lamina::model {

void check_that_it_loads(const std::string& directory, const registry::Catalog& plugins) {
  const OpenedModel opened = open_weights(directory, plugins);
  weights::match_weights(*opened.model, io::WeightFiles(directory));
}

weights::Exported export_checked(const decoder::Model& model, const std::string& from,
                                 const std::string& to, const weights::ExportOptions& options,
                                 const registry::Catalog& plugins) {
  return weights::export_to_hf(model, from, to, options, [&](const std::string& written) {
    check_that_it_loads(written, plugins);
  });
}

ExportedModel export_model(const std::string& path, const std::string& to,
                           const weights::ExportOptions& options, const registry::Catalog& plugins,
                           const Backend& backend) {
  check_new_directory(to);
  OpenedModel opened = open(path, plugins);
  if (opened.directory.empty())
    throw UserError(ExitCode::checkpoint, {path,
                                           "describes a model but has no weights; expected a "
                                           "checkpoint, a run directory or a model directory",
                                           {}});
  if (opened.model->adapter())
    throw UserError(ExitCode::usage,
                    {path,
                     "is a model with an adapter, which has no published form",
                     {"`lamina ckpt merge` writes a model with the adapter merged; the adapter "
                      "alone is adapter_model.safetensors of a checkpoint"}});
  if (options.average) use_average(opened);
  if (opened.model->options().exports_as.empty())
    return {opened.directory,
            export_checked(*opened.model, opened.directory, to, options, plugins)};
  const FoldedModel folded(opened, to, plugins, backend);
  weights::ExportOptions folded_options = options;
  folded_options.average = false;  // the folded model is already the average
  return {opened.directory,
          export_checked(folded.model(), folded.directory(), to, folded_options, plugins)};
}

}  // namespace lamina::model
