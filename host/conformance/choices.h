// Finds parameters that only decide something without a slope: which experts, which tokens.
#pragma once

#include <vector>

#include "decoder/model.h"

namespace lamina::conformance {

// For each parameter, true if all its dependents in training are choices.
std::vector<bool> parameters_that_only_choose(const decoder::Model& model);

}  // namespace lamina::conformance
