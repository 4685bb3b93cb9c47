// Checks that numbers made of positions stay exact in long sequences.
#pragma once

#include "conformance/subjects/model_case.h"

namespace lamina::conformance {

// Throws Failure for an integer op that overflows for a position below 2^20, and for positions that
// are converted to bfloat16.
void check_positions_are_exact(const ModelCase& c);

}  // namespace lamina::conformance
