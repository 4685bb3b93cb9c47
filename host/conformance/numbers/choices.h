// Finds parameters without a gradient because they only select: experts, tokens.
#pragma once

#include <vector>

#include "decoder/model.h"

namespace lamina::conformance {

// For each parameter, true if the loss depends on it through selections only.
std::vector<bool> parameters_that_only_choose(const decoder::Model& model);

}  // namespace lamina::conformance
