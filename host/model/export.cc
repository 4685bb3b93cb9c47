#include "model/export.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "config/model_keys.h"
#include "config/published_keys.h"
#include "core/error.h"
#include "core/json.h"
#include "core/log.h"
#include "io/durable_file.h"
#include "model/fold.h"
#include "model/new_directory.h"
#include "model/open.h"
#include "model/same_function.h"
#include "publishers/python_json.h"
#include "weights/match/tensor_map.h"
#include "weights/publish/hf_config.h"

namespace lamina::model {
namespace {

// Returns the keys of the object "lamina" of `directory`/config.json without which, as other
// programs read that file, it describes a model with other logits.
std::vector<std::string> keys_that_others_miss(const std::string& directory,
                                               const registry::Catalog& plugins) {
  const std::string own = fmt::format("model.{}", config::kOwnObject);
  Description described = describe(directory, plugins);
  std::erase_if(described.source.raw.entries, [&](const config::RawEntry& entry) {
    return entry.key == fmt::format("{}{}", own, config::kPredictionLayers);  // changes no logits
  });
  const auto is_own = [&](const config::RawEntry& entry) { return entry.key.starts_with(own); };
  std::vector<std::string> names;
  for (const config::RawEntry& entry : described.source.raw.entries)
    if (is_own(entry)) names.push_back(entry.key.substr(own.size()));
  if (names.empty()) return {};
  const decoder::ModelOptions options{.compress_tokens = decoder::uncompressed_tokens};
  const decoder::Model whole = make(described.source, plugins, options);
  const auto matters = [&](const auto& is_left_out) {
    config::ModelSource source = described.source;
    std::erase_if(source.raw.entries, is_left_out);
    try {
      return !computes_the_same(whole, make(source, plugins, options));
    } catch (const UserError&) {
      return true;  // the other values do not fit without it
    }
  };
  std::vector<std::string> out;
  std::ranges::copy_if(names, std::back_inserter(out), [&](const std::string& name) {
    return matters([&](const config::RawEntry& entry) { return entry.key == own + name; });
  });
  return out.empty() && matters(is_own) ? names : out;
}

}  // namespace

std::string joined_tensor(const decoder::Model& model, const weights::TensorMap& written) {
  const weights::TensorMap apart = weights::published_tensors(model),
                           fused = weights::published_tensors(model, weights::Layout::fused);
  const auto name_of = [](const weights::TensorMap& map, int parameter) {
    const auto pieces = map.pieces_of(parameter);
    return pieces.empty() ? std::string() : map.tensor_of(pieces.front()).name;
  };
  // The last two parts: names before them differ in models with encoders.
  const auto end = [](std::string_view name) {
    const std::size_t dot = name.rfind('.', name.rfind('.') - 1);
    return dot == name.npos ? name : name.substr(dot + 1);
  };
  for (int i = 0; i < static_cast<int>(model.parameters().all().size()); ++i) {
    const std::string name = name_of(written, i), joined = name_of(fused, i);
    if (!name.empty() && joined != name_of(apart, i) && end(name) == end(joined)) return name;
  }
  return "";
}

namespace {

// Writes the family's name into the config.json of `directory`, which gets the name `to`, if
// another family reads the published names in it, too: a reader might choose that one.
void name_family(const decoder::Model& model, const std::string& directory, const std::string& to,
                 const registry::Catalog& plugins) {
  const std::string& family = model.family().name();
  const config::ModelSource source = describe(directory, plugins).source;
  const std::vector<registry::FamilyFile> others = plugins.other_readers(
      family, source.model_type, source.architectures, source.text_model_type);
  if (others.empty() && source.family.empty()) return;
  const std::string path = directory + "/config.json";
  io::write_durably(
      path, weights::with_family(JsonDocument::read(path, publishers::kPythonJson).root(), family));
  if (others.empty()) return;
  log::warning(
      "{}: family '{}' of {} reads the same published names, so config.json also names family "
      "'{}'; other programs ignore that, and compute the model of the published names; a family of "
      "another model needs other hf_model_types and hf_architectures",
      to, others.front().family, others.front().file->path.filename().string(), family);
}

void check_family(const registry::Family& exported, const registry::Family& reader,
                  const std::string& to) {
  if (reader.name() == exported.name()) return;
  throw UserError(
      ExitCode::checkpoint,
      {to,
       fmt::format("is a model of family '{}' of {}, but is read by family '{}' of {}",
                   exported.name(), exported.plugin().id, reader.name(), reader.plugin().id),
       {"authors of plugins: give the family another name, hf_model_types and hf_architectures"}});
}

}  // namespace

void check_that_it_loads(const std::string& directory, const std::string& final_name,
                         const registry::Catalog& plugins) {
  const OpenedModel opened = reopen(directory, final_name, plugins);
  weights::match_weights(*opened.model, io::WeightFiles(directory));
}

weights::Exported export_checked(const decoder::Model& model, const std::string& from,
                                 const std::string& to, const weights::ExportOptions& options,
                                 const registry::Catalog& plugins) {
  return weights::export_to_hf(model, from, to, options, [&](const std::string& written) {
    name_family(model, written, to, plugins);
    const OpenedModel opened = reopen(written, to, plugins);
    check_family(model.family(), opened.model->family(), to);
    const weights::TensorMap tensors =
        weights::match_weights(*opened.model, io::WeightFiles(written));
    if (const std::string name = joined_tensor(*opened.model, tensors); !name.empty())
      log::warning(
          "{}: {} joins matrices that are published apart; transformers does not find them in it, "
          "and computes another model; lamina reads the export right, and `lamina ckpt export "
          "--layout published` separates them{}",
          to, name, options.compressed ? " before they are quantised" : "");
    if (const auto keys = keys_that_others_miss(written, plugins); !keys.empty())
      log::warning(
          "{}: other programs ignore {} of the object \"lamina\" in config.json, and compute "
          "another model; lamina reads the export right",
          to, fmt::join(keys, ", "));
  });
}

ExportedModel export_model(const std::string& path, const std::string& to,
                           const weights::ExportOptions& options, const registry::Catalog& plugins,
                           const Backend& backend) {
  check_new_directory(to, {&path, 1});
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
