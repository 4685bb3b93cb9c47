// The form of a graph in which every output has its own place.
#pragma once

#include "graph/graph.h"

namespace lamina {

// Copies the graph so that every output is a separate whole result, which can be written directly
// to its place. An output that aliases an input is written there by ops that work in place, or else
// copied there at the end, when the input is not read any more.
Graph with_own_outputs(const Graph& graph);

}  // namespace lamina
