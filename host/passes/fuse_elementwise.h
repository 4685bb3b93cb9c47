// Fuses chains of elementwise ops into single passes over memory.
#pragma once

#include "graph/graph.h"

namespace lamina::passes {

// Connected groups of elementwise nodes with one shape become fused_map nodes. Each op in a group
// still rounds to its own dtype, so results are bit-identical. Tagged values stay visible only if
// they are read outside the group.
Graph fuse_elementwise(Graph graph);

}  // namespace lamina::passes
