#include "model/merge.h"

#include <filesystem>

#include "core/error.h"
#include "io/hf_directory.h"
#include "weights/peft.h"
#include "weights/published_form.h"
#include "weights/weights.h"

namespace lamina::model {
namespace {

namespace fs = std::filesystem;

// Removed when it ends.
struct Scratch {
  explicit Scratch(std::string directory) : path(std::move(directory)) {
    fs::remove_all(path);
    fs::create_directories(path);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  std::string path;
};

void write_merged(const decoder::Model& base, const OpenedModel& adapted,
                  const std::string& directory, const Backend& backend) {
  const decoder::Model& model = *adapted.model;
  const weights::Weights loaded =
      weights::Weights::load(model, adapted.weight_files(), DType::f32, backend);
  const auto values = [&](int parameter) {
    return std::span(
        static_cast<const float*>(loaded.pointers()[static_cast<std::size_t>(parameter)]),
        static_cast<std::size_t>(model.parameters()[parameter].num_elements()));
  };
  std::vector<io::TensorSpec> specs;
  for (const decoder::Parameter& p : base.parameters().all())
    specs.push_back({p.name, DType::f32, p.desc.shape});
  std::vector<float> merged;
  io::write_weight_files(directory, specs, [&](const io::TensorSpec& spec) {
    const int parameter = model.parameters().find(spec.name);
    const std::span<const float> weight = values(parameter);
    if (!weights::has_adapter(model, parameter)) return std::as_bytes(weight);
    merged.assign(weight.begin(), weight.end());
    weights::merge_adapter(model, parameter, values, merged);
    return std::as_bytes(std::span<const float>(merged));
  });
}

}  // namespace

weights::Exported merge_to_hf(const std::string& path, const std::string& adapter,
                              const std::string& to, std::optional<DType> dtype,
                              const registry::Catalog& plugins, const Backend& backend,
                              const std::function<void(const std::string&)>& check) {
  const OpenedModel adapted = open_weights(path, plugins, adapter);
  if (!adapted.model->adapter())
    throw UserError(ExitCode::usage,
                    {path, "has no adapter to merge", {"name one with --adapter DIR"}});
  const Description from = describe(adapted.directory, plugins);
  const decoder::Model base =
      make(from.source, plugins, {.compress_tokens = decoder::uncompressed_tokens});
  if (fs::exists(to))  // before the work
    throw UserError(ExitCode::usage, {to,
                                      "exists already; --to names a directory to be made",
                                      {"choose another name, or remove it first"}});
  const Scratch scratch(to + ".merging");
  write_merged(base, adapted, scratch.path, backend);
  for (const char* name : {"model.toml", "config.json"})
    if (fs::exists(fs::path(adapted.directory) / name))
      fs::copy_file(fs::path(adapted.directory) / name, fs::path(scratch.path) / name);
  const std::shared_ptr<io::WeightFiles> files = adapted.weight_files();
  if (const std::string form = weights::published_form(
          base, base, *files, weights::match_weights(*adapted.model, *files));
      !form.empty())
    io::write_durably(fmt::format("{}/{}", scratch.path, weights::kPublishedFormFile), form);
  io::copy_side_files(adapted.directory, scratch.path);
  return weights::export_to_hf(base, scratch.path, to, dtype, check);
}

}  // namespace lamina::model
