// Small config.json files of the shipped families, as texts, and the values that the families read
// from them.
#pragma once

#include <string>

#include "registry/library.h"
#include "support/paths.h"
#include "support/temp_dir.h"

namespace lamina::testing {

inline const registry::Catalog& shipped_plugins() {
  static const registry::Catalog catalog = registry::Catalog::scan(
      {.folders = {std::filesystem::path(LAMINA_BUILD_DIR) / "lib/lamina/plugins"}});
  return catalog;
}

// The members of a model of four layers; `more` begins with a comma or is empty.
inline std::string small_members(const std::string& model_type, const std::string& more = "") {
  const std::string start = R"("model_type": ")" + model_type + R"(", "vocab_size": 32)";
  if (model_type == "gpt2") return start + R"(, "n_embd": 64, "n_layer": 4, "n_head": 4)" + more;
  const std::string kv_heads = model_type == "deepseek_v4"
                                   ? R"(, "num_key_value_heads": 1, "o_groups": 4)"
                                   : R"(, "num_key_value_heads": 4)";
  return start + R"(, "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 4,
                     "num_attention_heads": 4)" +
         kv_heads + more;
}

inline std::string small_config(const std::string& model_type, const std::string& more = "") {
  return "{" + small_members(model_type, more) + "}";
}

inline registry::ModelConfig configure(const std::string& json) {
  const TempDir folder;
  const config::ModelSource source = config::load_model(folder.write("config.json", json));
  return registry::load_family(shipped_plugins(), source).configure(source.raw, "config.json");
}

}  // namespace lamina::testing
