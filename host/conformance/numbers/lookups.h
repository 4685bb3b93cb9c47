// Checks that tables have a row for every token and position that a block looks up.
#pragma once

#include "conformance/subjects/model_case.h"

namespace lamina::conformance {

// Throws Failure for an embedding of a block with an id past the last row of its table, which gives
// zeros. A negative id gives zeros on purpose.
void check_lookups_are_in_the_table(const ModelCase& c);

}  // namespace lamina::conformance
