#include "model/merge.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "core/error.h"
#include "io/stored_weight.h"
#include "model/export.h"
#include "model/new_directory.h"
#include "model/scratch_model.h"
#include "weights/check/finite.h"
#include "weights/publish/peft.h"
#include "weights/publish/published_form.h"
#include "weights/weights.h"

namespace lamina::model {
namespace {

namespace fs = std::filesystem;

// Throws for a matrix whose sum has values that are not finite: names the tensor that has them.
[[noreturn]] void refuse_values(const std::string& matrix, const OpenedModel& adapted) {
  weights::require_finite(*adapted.model, *adapted.weight_files());
  throw UserError(ExitCode::checkpoint, {matrix,
                                         "with its adapter has values beyond float32",
                                         {"the adapter is damaged, or of another model"}});
}

void write_merged(const decoder::Model& base, const OpenedModel& adapted,
                  const ScratchModel& scratch, const Backend& backend) {
  const decoder::Model& model = *adapted.model;
  const weights::Weights loaded =
      weights::Weights::load(model, adapted.weight_files(), DType::f32, backend);
  weights::WeightValues host_values(loaded, backend.context().queue());
  const auto values = [&](int parameter) { return host_values(parameter); };
  std::vector<float> merged;
  const auto merged_values = [&](const decoder::Parameter& p) {
    const int parameter = model.parameters().find(p.name);
    const std::span<const float> weight = values(parameter);
    if (!weights::has_adapter(model, parameter)) return weight;
    merged.assign(weight.begin(), weight.end());
    weights::merge_adapter(model, parameter, values, merged);
    if (!std::ranges::all_of(merged, [](float x) { return std::isfinite(x); }))
      refuse_values(p.name, adapted);
    return std::span<const float>(merged);
  };
  scratch.write(base, merged_values, adapted.directory);
}

// Returns the type for a base without a published form, eg a GGUF file: bfloat16 if it has
// compressed weights, else the type of most values.
DType main_dtype(const io::WeightFiles& files, const weights::TensorMap& map) {
  std::map<DType, std::int64_t> num_values;
  for (const weights::PublishedTensor& tensor : map.tensors()) {
    const io::StoredWeight weight(files, tensor.name);
    if (!weight.is_uncompressed()) return DType::bf16;
    if (is_floating(weight.data().dtype))
      num_values[weight.data().dtype] += weight.shape().num_elements();
  }
  const auto main =
      std::ranges::max_element(num_values, {}, [](const auto& entry) { return entry.second; });
  return main == num_values.end() ? DType::f32 : main->first;
}

}  // namespace

weights::Exported merge_to_hf(const std::string& path, const WeightChoice& choice,
                              const std::string& to, std::optional<DType> dtype,
                              const registry::Catalog& plugins, const Backend& backend) {
  std::vector<std::string> sources = {path, model_files(path)};  // the adapter, and its model
  if (!choice.adapter.empty()) sources.push_back(choice.adapter);
  check_new_directory(to, sources);
  const OpenedModel adapted = open_weights(path, plugins, choice);
  if (!adapted.model->adapter())
    throw UserError(ExitCode::usage,
                    {path, "has no adapter to merge", {"give one with --adapter DIR"}});
  Description from = describe(adapted.directory, plugins, {}, {}, WeightForm::published);
  const decoder::Model base =
      make_of(from, plugins, {.compress_tokens = decoder::uncompressed_tokens});
  const ScratchModel scratch(to);
  for (const char* name : {"/model.toml", "/config.json"})
    if (fs::exists(adapted.directory + name))
      io::copy_durably(adapted.directory + name, scratch.directory() + name);
  const std::shared_ptr<io::WeightFiles> files = adapted.weight_files();
  const weights::TensorMap map = weights::match_weights(*adapted.model, *files);
  if (const std::string form = weights::published_form(base, base, *files, map); !form.empty())
    io::write_durably(fmt::format("{}/{}", scratch.directory(), weights::kPublishedFormFile), form);
  else if (!dtype)
    dtype = main_dtype(*files, map);
  write_merged(base, adapted, scratch, backend);
  return export_checked(base, scratch.directory(), to, {.dtype = dtype}, plugins);
}

}  // namespace lamina::model
