// Repeats elementwise nodes where that moves fewer bytes.
#pragma once

#include <optional>

#include "passes/elementwise_groups.h"

namespace lamina::passes {

// Returns a level in which a group of elementwise nodes computes values of other groups again, if
// their sources have fewer bytes than the values: the conversions to f32 of a gated activation,
// which its gradient reads as well. Results have the same bits. Returns nothing if the level stays
// as it is. `groups` are the graph's.
std::optional<Graph> repeat_elementwise(const Graph& graph, const ElementwiseGroups& groups);

}  // namespace lamina::passes
