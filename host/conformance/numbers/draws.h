// Checks the use of random numbers in a block.
#pragma once

#include "conformance/subjects/model_case.h"

namespace lamina::conformance {

// Throws Failure if a choice depends only on random numbers and constants, as in dropout by hand:
// outside training all of them are 0.5, so decoding always makes the same choice.
void check_draws_are_not_compared(const ModelCase& c);

}  // namespace lamina::conformance
