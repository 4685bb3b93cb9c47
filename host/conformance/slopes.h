// Gradients against finite differences, in f64: along a direction in each tensor, what the backward
// graph gives is the slope that finite differences of the loss give.
#pragma once

#include "conformance/model_case.h"

namespace lamina::conformance {

// `directions`: random ones in each tensor. Throws a Failure where a slope is another; likewise of
// each auxiliary loss by itself, in what it teaches.
void check_gradients_are_slopes(const ModelCase& c, int directions);

// Throws a Failure where nothing learns from an auxiliary loss.
void check_layer_losses_have_gradients(const ModelCase& c);

}  // namespace lamina::conformance
