// Parameters that decide something which has no slope: which experts, which tokens.
#pragma once

#include <vector>

#include "decoder/model.h"

namespace lamina::conformance {

// For each parameter, whether all that depends on it in training is a choice.
std::vector<bool> parameters_that_only_choose(const decoder::Model& model);

}  // namespace lamina::conformance
