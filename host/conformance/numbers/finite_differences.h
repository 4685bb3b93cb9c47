// Compares gradients with finite differences of the loss, in f64: their derivatives along a
// direction in each tensor must be equal.
#pragma once

#include "conformance/subjects/model_case.h"

namespace lamina::conformance {

// `directions`: random ones in each tensor. Throws Failure if a derivative differs; also checks
// each auxiliary loss by itself, in the parameters that it teaches.
void check_finite_differences(const ModelCase& c, int directions);

// Throws Failure if no parameter learns from an auxiliary loss.
void check_layer_losses_have_gradients(const ModelCase& c);

}  // namespace lamina::conformance
