// Checks that training reaches every parameter, and every part of one.
#pragma once

#include "conformance/subjects/model_case.h"

namespace lamina::conformance {

// Throws Failure for a trained parameter without a gradient, and for a part of one (an expert, a
// row of a matrix) without a gradient.
void check_every_part_learns(const ModelCase& c);

// The same with the weights with which training starts: a parameter must have a gradient at the
// start or after a few steps. Products of zeros never learn.
void check_learning_begins(const ModelCase& c);

}  // namespace lamina::conformance
