// A model from the text of a config.json.
#pragma once

#include <string>
#include <string_view>

#include "config/run_config.h"

namespace lamina::config {

// As load_model() reads it from a file; `name` replaces its path in messages.
ModelSource parse_model(std::string_view config_json, const std::string& name,
                        const Overrides& overrides = {});

}  // namespace lamina::config
