// Which rows of a published matrix a matrix of ours has.
#pragma once

#include <optional>
#include <vector>

#include "registry/family.h"

namespace lamina::weights {

// Returns the transforms that choose the rows, for a published matrix [outputs, inputs] or its
// transpose; empty for all rows. Returns nothing if `row` does anything else, eg takes a part of
// the inputs: the outputs of such a matrix are not outputs of the published module.
std::optional<std::vector<registry::Transform>> row_choice(const registry::TensorRow& row);

}  // namespace lamina::weights
