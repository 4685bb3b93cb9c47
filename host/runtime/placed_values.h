// The values of a graph that a program has in host memory.
#pragma once

#include <vector>

#include "graph/graph.h"

namespace lamina {

// Returns for each value whether the graph places it in host memory and only scans reach it, layer
// by layer: their stacked operands and results, and inputs of the graph.
std::vector<bool> host_values(const Graph& graph);

}  // namespace lamina
