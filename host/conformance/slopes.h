// Gradients against finite differences, in f64: along a direction in each tensor, what the backward
// graph gives is the slope that finite differences of the loss give.
#pragma once

#include "conformance/model_case.h"

namespace lamina::conformance {

// `directions`: random ones in each tensor. Throws a Failure where a slope is another.
void check_gradients_are_slopes(const ModelCase& c, int directions);

}  // namespace lamina::conformance
