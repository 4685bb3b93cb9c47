// The layers of a configuration: base.yml, the model's file, the user's file.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "imports/yaml_file.h"

namespace lamina::imports {

struct Configuration {
  std::string name;                // name of the file, without .yml
  std::string file = {};           // its path, for messages
  std::vector<YamlSetting> base;   // of base.yml
  std::vector<YamlSetting> given;  // settings above it; later ones take precedence
};

// Reads `file` and its base files: the one given by its base_config, or base.yml, in its folder or
// one of the five above, and recursively the base of that file. The file of model_name is
// models/NAME.yml beside the base; a file of models/ without a model_name is its own model, and the
// settings may not name another.
// `settings`: "key=value", above the files. "student_overrides.key" takes precedence over those.
// Errors (exit 2): as read_yaml(); files of other programs, and run files; base.yml or the file of
// the model is missing; another model's name above a model's file; files that are based on
// themselves.
Configuration read_configuration(const std::filesystem::path& file,
                                 const std::vector<std::string>& settings);

}  // namespace lamina::imports
