// Horizontal fusion: linears with the same input become one linear_group.
#pragma once

#include "graph/graph.h"

namespace lamina::passes {

// Projections of one value (query, key, value; gate, up) read it together. This pays off for few
// rows, where each pass over weights is a separate trip to memory.
Graph group_linears(Graph graph);

}  // namespace lamina::passes
