// Compares gradients with finite differences, in f64: along a direction in each tensor, the
// backward graph must give the slope of the loss.
#pragma once

#include "conformance/model_case.h"

namespace lamina::conformance {

// `directions`: random ones in each tensor. Throws Failure if a slope differs; also checks each
// auxiliary loss by itself, in the parameters that it teaches.
void check_gradients_are_slopes(const ModelCase& c, int directions);

// Throws Failure if no parameter learns from an auxiliary loss.
void check_layer_losses_have_gradients(const ModelCase& c);

}  // namespace lamina::conformance
