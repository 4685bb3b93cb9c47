// Reads a model from the text of a config.json.
#pragma once

#include <string>
#include <string_view>

#include "config/run_config.h"

namespace lamina::config {

// Like load_model() for a file; `name` replaces the path in messages.
ModelSource parse_model(std::string_view config_json, const std::string& name,
                        const Overrides& overrides = {});

}  // namespace lamina::config
