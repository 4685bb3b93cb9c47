// One graph of several independent ones.
#pragma once

#include <span>

#include "graph/graph.h"

namespace lamina {

// Returns a graph with the inputs and outputs of all graphs, one graph after the other. Node n of
// every graph is before node n + 1 of any, so that equal nodes of graphs with one structure are
// neighbours.
Graph interleaved(std::span<const Graph* const> graphs);

}  // namespace lamina
