// The layers of a configuration: base.yml, the model's file above it, the user's above both.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "imports/yaml_file.h"

namespace lamina::imports {

struct Configuration {
  std::string name;            // of the file, without .yml
  std::vector<Setting> base;   // of base.yml
  std::vector<Setting> given;  // those above it; later ones win
};

// Reads `file` and the files that it rests on: the one that its base_config names, or base.yml, in
// its folder or one of the five above, and likewise those of that file. The file that model_name
// names is models/NAME.yml beside the base; a file of models/ without a model_name names itself.
// `settings`: "key=value", above the files. "student_overrides.key" is above those. Errors (exit 2)
// as read_yaml(), and: there is no base.yml, no file of that model, files that rest on themselves.
Configuration read_configuration(const std::filesystem::path& file,
                                 const std::vector<std::string>& settings);

}  // namespace lamina::imports
