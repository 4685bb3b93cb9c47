#include "model/gguf_source.h"

#include <algorithm>

#include "config/model_keys.h"
#include "config/model_text.h"
#include "config/published_keys.h"
#include "core/error.h"
#include "core/printable.h"
#include "io/gguf_config.h"
#include "io/gguf_names.h"
#include "lamina/ext/gguf.h"
#include "registry/library.h"

namespace lamina::model {
namespace {

constexpr std::string_view kModel = "model.";

std::string without_marks(std::string name) {
  std::erase_if(name, [](char c) { return c == '_' || c == '-'; });
  return name;
}

// Returns whether a model_type of a family is "<architecture>.<key>" for a key in the file
// (ext/gguf.h).
bool is_kind_of(const io::GgufFile& file, const std::string& architecture,
                const std::string& type) {
  if (!type.starts_with(architecture + ".")) return false;
  const io::GgufValue* value = file.find(type);
  return value && (value->is_array || file.integer(type) != 0);
}

// Returns the family's model_type for the file: a variant of its architecture, else the
// architecture, compared without '_' and '-'.
std::string model_type_of(const io::GgufModel& model, const registry::Catalog& plugins) {
  const std::string architecture = io::gguf_architecture(model);
  std::string out = architecture;
  for (const registry::PluginFile& plugin : plugins.plugins())
    for (const registry::FamilyNames& family : plugin.manifest.families)
      for (const std::string& type : family.hf_model_types) {
        if (is_kind_of(model.first(), architecture, type)) return type;
        if (without_marks(type) == without_marks(architecture)) out = type;
      }
  return out;
}

// Sets origins to the parts of the file, which errors then name. They were lines of the config.json
// that replaces its metadata.
void name_places(config::Raw& raw, const std::string& file, const io::GgufConfig& config) {
  const auto name_all = [&](auto& list) {
    for (auto& item : list)
      if (config::is_json(item.origin))
        item.origin.text =
            fmt::format("{}: {}", file, config.place_of(item.key.substr(kModel.size())));
  };
  name_all(raw.entries);
  name_all(raw.sections);
  name_all(raw.nulls);
  name_all(raw.mixed_lists);
}

}  // namespace

config::ModelSource read_gguf_source(const io::GgufModel& file, const registry::Catalog& plugins,
                                     const config::Overrides& overrides, WeightForm form,
                                     std::int64_t& paired_width) {
  if (const auto type = file.first().text("general.type"); type && *type != "model")
    file.first().fail("general.type", fmt::format("is '{}'; expected 'model'", printable(*type)),
                      "give the file of the model itself");
  const std::string model_type = model_type_of(file, plugins);
  const auto parse = [&](const io::GgufConfig& config) {
    config::ModelSource out =
        config::parse_model(config.json, file.path() + ": metadata", overrides);
    name_places(out.raw, file.path(), config);
    return out;
  };
  const registry::Family& family =
      registry::load_family(plugins, parse(io::gguf_config(file, model_type, LAMINA_GGUF_KEY)));
  if (std::ranges::none_of(family.keys(), [](const registry::ModelKey& key) {
        return config::is_called(key.key, LAMINA_GGUF_KEY);
      }))
    throw UserError(
        ExitCode::checkpoint,
        {file.path(),
         fmt::format("is of family '{}', which does not declare its weights in GGUF files",
                     family.name()),
         {"use the safetensors files of the same model",
          fmt::format("authors of plugins: declare the key '{}', ext/gguf.h", LAMINA_GGUF_KEY)}});
  std::string marker = LAMINA_GGUF_KEY;
  const registry::ModelKey* paired = family.find_key(io::kPairedRowsKey);
  if (form == WeightForm::published && paired && config::is_called(paired->key, marker)) {
    paired_width = io::gguf_head_width(file);
    marker.clear();
  }
  const auto keeps_name = [&](std::string_view key) {
    return std::ranges::any_of(family.keys(), [&](const registry::ModelKey& known) {
      return config::is_called(known.key, key);
    });
  };
  config::ModelSource out = parse(io::gguf_config(file, model_type, marker, keeps_name));
  // Metadata has the same meaning for all architectures. It sets the host's keys, and keys that a
  // family reads only in the object "lamina", such as an attention window.
  for (config::RawEntry& entry : out.raw.entries)
    if (const registry::ModelKey* key = entry.key.starts_with(kModel)
                                            ? family.find_key(entry.key.substr(kModel.size()))
                                            : nullptr;
        key && key->hf_name.starts_with(config::kOwnObject) &&
        entry.origin.kind == config::Origin::Kind::json)
      entry.key.insert(kModel.size(), config::kOwnObject);
  std::vector<std::string> unread = family.configure(out.raw, out.where).unread();
  for (std::string& name : unread) name = name.substr(0, name.find(" ("));  // "name (place)"
  io::refuse_unknown_keys(file, family.name(), keeps_name, unread);
  return out;
}

}  // namespace lamina::model
