// Merges nodes that compute the same: same op, attributes and operands.
#pragma once

#include "graph/graph.h"

namespace lamina::passes {

// Nodes that write in place are never merged. A merged value keeps the first's tag and place.
Graph merge_common_subexpressions(Graph graph);

}  // namespace lamina::passes
