// Descriptions of models with unusual and wrong values.
#pragma once

#include <string>
#include <vector>

#include "config/key.h"
#include "config/run_config.h"

namespace lamina::conformance {

// Values to try for a key of that type; `now` is its value, if it has one.
std::vector<config::Value> odd_values(const config::Key& key, const config::Value* now);
config::Value value_of_another_type(const config::Key& key);

// Returns the description with another value of a key, or without the key.
config::ModelSource with_value(config::ModelSource source, const std::string& key,
                               config::Value value);
config::ModelSource without_value(config::ModelSource source, const config::Key& key);

}  // namespace lamina::conformance
