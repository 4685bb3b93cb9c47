#include "model/quantise.h"

#include "core/error.h"
#include "io/stored_weight.h"
#include "model/choose_blocks.h"
#include "model/new_directory.h"
#include "model/open.h"
#include "weights/quantise/budget.h"

namespace lamina::model {
namespace {

// Other tensors, eg of encoders, may have any type.
void check_is_plain(const std::string& path, const decoder::Model& model,
                    const io::WeightFiles& files) {
  const auto refuse = [&](const std::string& what) {
    throw UserError(ExitCode::usage,
                    {path,
                     fmt::format("is quantised already: {}; expected plain values", what),
                     {"quantise the model that it was made from"}});
  };
  if (!files.compression().method.empty())
    refuse(fmt::format("config.json has quantization_config '{}'", files.compression().method));
  const weights::TensorMap map = weights::match_weights(model, files);
  for (const weights::PublishedTensor& tensor : map.tensors())
    if (const io::StoredWeight stored(files, tensor.name); !stored.is_uncompressed())
      refuse(fmt::format("'{}' is {}", tensor.name, lamina::name(stored.data().dtype)));
}

}  // namespace

QuantisedModel quantise_to_hf(const std::string& path, const std::string& to,
                              const weights::Quantisation& what, weights::ExportOptions options,
                              const registry::Catalog& plugins, const QuantiseMethod& method) {
  check_new_directory(to, {&path, 1});
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
  check_is_plain(path, *opened.model, *files);
  options.compressed = true;
  ChosenBlocks chosen;
  if (method.calibrate.empty() && !method.target_bits) {
    chosen.storages = weights::choose_storage(*opened.model, what, DType::bf16, [&](auto storages) {
      check_forms(*opened.model, *files, storages);
    });
  } else {
    chosen = choose_blocks(opened, files, what, method, options.workers);
    options.blocks = &chosen.blocks;
  }
  weights::set_quantised(*opened.model, chosen.storages);
  QuantisedModel out{.directory = opened.directory,
                     .bits_per_value = weights::bits_per_value(*opened.model, chosen.storages)};
  for (const formats::BlockFormat* format : chosen.storages)
    if (format) ++out.num_matrices[std::string(format->name)];
  out.written = export_checked(*opened.model, opened.directory, to, options, plugins);
  return out;
}

}  // namespace lamina::model
