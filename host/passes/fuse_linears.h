// Horizontal fusion: linears that share their input become one linear_group.
#pragma once

#include "graph/graph.h"

namespace lamina::passes {

// Projections of one value (query, key, value; gate, up) walk over it together. Worth it for few
// rows, where each walk over weights is its own trip to memory.
Graph group_linears(Graph graph);

}  // namespace lamina::passes
