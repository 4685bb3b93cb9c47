#include "model/quantise.h"

#include "core/error.h"
#include "io/stored_weight.h"
#include "model/choose_blocks.h"
#include "model/new_directory.h"
#include "model/open.h"

namespace lamina::model {
namespace {

void check_is_plain(const std::string& path, const io::WeightFiles& files) {
  const auto refuse = [&](const std::string& what) {
    throw UserError(ExitCode::usage,
                    {path,
                     fmt::format("is quantised already: {}; expected plain values", what),
                     {"quantise the model that it was made from"}});
  };
  if (!files.compression().method.empty())
    refuse(fmt::format("config.json has quantization_config '{}'", files.compression().method));
  for (std::string_view name : files.names())
    if (const DType dtype = files.tensor(name).dtype;
        dtype == DType::f8_e4m3 || dtype == DType::f8_e5m2 || dtype == DType::u8)
      refuse(fmt::format("'{}' is {}", name, lamina::name(dtype)));
}

}  // namespace

ExportedModel quantise_to_hf(const std::string& path, const std::string& to,
                             const weights::Quantisation& what, weights::ExportOptions options,
                             const registry::Catalog& plugins, const QuantiseMethod& method) {
  check_new_directory(to);
  OpenedModel opened = open_weights(path, plugins);
  if (opened.model->adapter())
    throw UserError(ExitCode::usage,
                    {path,
                     "is a model with an adapter, which has no quantised form",
                     {"`lamina ckpt merge` writes a model with the adapter merged"}});
  if (!opened.model->options().exports_as.empty())
    throw UserError(ExitCode::usage,
                    {path,
                     fmt::format("is published as a model of the family '{}'",
                                 opened.model->options().exports_as),
                     {"export it with `lamina ckpt export`, then quantise the export"}});
  if (!io::gguf_in(opened.directory).empty())
    throw UserError(ExitCode::checkpoint, {path,
                                           "is a GGUF file, which lamina can read but not export",
                                           {"use the safetensors files of the same model"}});
  if (options.average) use_average(opened);
  const std::shared_ptr<io::WeightFiles> files = opened.weight_files();
  check_is_plain(path, *files);
  options.compressed = true;
  ChosenBlocks chosen;
  if (method.calibrate.empty() && !method.target_bits) {
    weights::quantise(*opened.model, files.get(), DType::bf16, what);
  } else {
    chosen = choose_blocks(opened, files, what, method, options.workers);
    weights::set_quantised(*opened.model, chosen.storages);
    options.blocks = &chosen.blocks;
  }
  return {opened.directory, export_checked(*opened.model, opened.directory, to, options, plugins)};
}

}  // namespace lamina::model
