// Merges nodes with the same op, attributes and operands.
#pragma once

#include "graph/graph.h"

namespace lamina::passes {

// Nodes that write in place are never merged. A merged value keeps the tag and position of the
// first.
Graph merge_common_subexpressions(Graph graph);

}  // namespace lamina::passes
