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
  std::vector<Setting> given;  // what stands above it, later ones win
};

// Reads `file` and the files below it. base.yml lies beside it, a folder up, or where its key
// base_config says; the file that its model_name names lies in models/ beside base.yml. A file of
// models/ names itself. `settings`: "key=value", above everything. Errors (exit 2) as
// read_yaml(), and: there is no base.yml, no file of that model.
Configuration read_configuration(const std::filesystem::path& file,
                                 const std::vector<std::string>& settings);

}  // namespace lamina::imports
