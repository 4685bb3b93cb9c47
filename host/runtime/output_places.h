// Values that are made in the memory of an output instead of the arena.
#pragma once

#include <map>
#include <vector>

#include "graph/graph.h"
#include "runtime/backend.h"

namespace lamina {

// Returns such values and the numbers of their outputs: results that are whole outputs, and
// operands over which kernels write these results. Outputs over an input are left out.
// `last_uses` are the last steps that read the values; values in `in_host` are never operands.
std::map<ValueId, int> output_places(const Graph& graph, const Backend& backend,
                                     const std::vector<int>& last_uses,
                                     const std::vector<bool>& in_host);

}  // namespace lamina
