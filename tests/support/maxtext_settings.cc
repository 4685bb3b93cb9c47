#include "support/maxtext_settings.h"

#include <set>

#include "core/json_writer.h"
#include "support/paths.h"
#include "support/temp_dir.h"

namespace lamina::testing {
namespace {

// MaxText's configuration object also has these keys.
bool is_computed(std::string_view key) {
  static const std::set<std::string_view> keys = {"emb_dim",
                                                  "global_batch_size_to_train_on",
                                                  "micro_batch_size_to_train_on",
                                                  "mlp_dim",
                                                  "moe_mlp_dim",
                                                  "num_decoder_layers",
                                                  "num_kv_heads",
                                                  "num_query_heads"};
  return keys.contains(key) || key.ends_with("_for_vit");
}

// Returns the file of the named model, if there is no block.
std::vector<imports::YamlSetting> model_file(std::initializer_list<JsonValue> settings) {
  JsonValue name;
  for (JsonValue source : settings) {
    if (!source || !source.is_object()) continue;
    if (source.find("decoder_block")) return {};
    if (const JsonValue found = source.find("model_name")) name = found;
  }
  if (!name) return {};
  return imports::read_yaml(std::string(LAMINA_SOURCE_DIR "/tests/imports/models/") +
                            std::string(name.as_string()) + ".yml");
}

}  // namespace

imports::Imported import_maxtext(std::initializer_list<JsonValue> settings) {
  const TempDir folder;
  imports::Configuration configuration{
      .name = "golden",
      .base = imports::read_yaml(LAMINA_SOURCE_DIR "/tests/imports/base.yml"),
      .given = model_file(settings)};
  for (JsonValue source : settings) {
    if (!source || !source.is_object()) continue;
    JsonWriter json;
    json.begin_object();
    for (auto [key, value] : source.members())
      if (!is_computed(key) && !value.is_object()) json.key(key).value(value);
    for (imports::YamlSetting& setting :
         imports::read_yaml(folder.write("settings.yml", json.end_object().text())))
      configuration.given.push_back(std::move(setting));
  }
  return imports::import_run(configuration);
}

std::string model_text(const imports::Imported& run) {
  return run.toml.substr(0, run.toml.find("\n[run]\n"));
}

}  // namespace lamina::testing
