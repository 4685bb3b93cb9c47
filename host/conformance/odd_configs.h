// Descriptions of models with values that are not as they should be.
#pragma once

#include <string>
#include <vector>

#include "config/key.h"
#include "config/run_config.h"

namespace lamina::conformance {

// The values to try for a key of that type; `now` is its value, if it has one.
std::vector<config::Value> odd_values(const config::Key& key, const config::Value* now);
config::Value value_of_another_type(const config::Key& key);

// The description with another value of a key, and without one.
config::ModelSource with_value(config::ModelSource source, const std::string& key,
                               config::Value value);
config::ModelSource without_value(config::ModelSource source, const config::Key& key);

}  // namespace lamina::conformance
