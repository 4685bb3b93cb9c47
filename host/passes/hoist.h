// Moves layer-invariant work out of scans: rotation tables, masks, constants.
#pragma once

#include "graph/graph.h"

namespace lamina::passes {

// A node of a body whose operands are all consts of its scan (or hoisted themselves) is computed
// once, before the scan, and passed in as a const. Plain constants are not moved.
Graph hoist_from_scans(Graph graph);

}  // namespace lamina::passes
