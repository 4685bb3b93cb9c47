#include "model/fold.h"

#include <set>

#include "config/listing.h"
#include "core/error.h"
#include "io/durable_file.h"
#include "model/open.h"
#include "program/records.h"
#include "registry/library.h"
#include "weights/weights.h"

namespace lamina::model {
namespace {

// Returns the other family's keys, with this model's values.
std::string description(const decoder::Model& model, const registry::Family& other) {
  std::vector<config::Entry> entries{
      {"family", config::Value(other.name()), {config::Origin::Kind::preset, "the plugin"}}};
  for (config::Entry entry : model.config().values().entries()) {
    const registry::ModelKey* key = other.find_key(entry.key);
    if (!key || key->json_only || key->ignored) continue;
    entry.key.insert(0, "model.");
    entries.push_back(std::move(entry));
  }
  return config::to_toml(entries);
}

// Values of the other model's parameters: a parameter of this model with that name, or a value
// computed by the block of the layer.
class Values {
 public:
  Values(const OpenedModel& from, const decoder::Model& other, const Backend& backend)
      : model_(*from.model),
        weights_(weights::Weights::load(model_, from.weight_files(), DType::f32, backend)),
        values_(weights_, backend.context().queue()) {
    const decoder::Model& model = model_;
    std::set<std::string> tags;
    for (const decoder::Parameter& p : other.parameters().all())
      if (model.parameters().find(p.name) < 0) tags.insert(registry::export_tag(p.desc.name));
    made_ = program::record_layers(model, weights_.pointers(),
                                   program::rows_of({0}, std::vector<std::int32_t>{-100}, 1, 1),
                                   DType::f32, {tags.begin(), tags.end()}, backend);
  }

  // Borrowed.
  std::span<const float> of(const decoder::Parameter& p) {
    if (const int own = model_.parameters().find(p.name); own >= 0) return values_(own);
    const std::string tag = registry::export_tag(p.desc.name);
    const auto made = made_.find({p.layer, tag});
    if (made == made_.end() || made->second.front().shape != p.desc.shape)
      throw PluginError(
          {model_.family().name(),
           fmt::format("is exported as '{}', but no block produces its parameter '{}' {}",
                       model_.options().exports_as, p.name, to_string(p.desc.shape)),
           {"the block must provide it: Scope::exported_value(), ext/export.h"}});
    return made->second.front().values;
  }

 private:
  const decoder::Model& model_;
  weights::Weights weights_;
  weights::WeightValues values_;
  program::LayerRecords made_;
};

}  // namespace

FoldedModel::FoldedModel(const OpenedModel& from, const std::string& to,
                         const registry::Catalog& plugins, const Backend& backend)
    : scratch_(to) {
  io::write_durably(
      directory() + "/model.toml",
      description(*from.model, registry::load_family(plugins, from.model->options().exports_as)));
  model_ = std::move(open(directory() + "/model.toml", plugins).model);
  Values values(from, *model_, backend);
  scratch_.write(
      *model_, [&](const decoder::Parameter& p) { return values.of(p); }, from.directory);
}

}  // namespace lamina::model
