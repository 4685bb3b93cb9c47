// Fuses chains of elementwise ops into single passes over memory.
#pragma once

#include "graph/graph.h"

namespace lamina::passes {

// Groups of elementwise nodes of one shape, connected by values, become fused_map nodes. Each op in
// a group still rounds to its own dtype: no bit changes. Tagged values stay visible only if read
// outside the group.
Graph fuse_elementwise(Graph graph);

}  // namespace lamina::passes
