// Moves what is the same in every layer out of scans: rotation tables, masks, constants.
#pragma once

#include "graph/graph.h"

namespace lamina::passes {

// A node of a body whose operands are all consts of its scan (or hoisted themselves) is computed
// once, before the scan, and handed in as a const. Mere constants stay where they are.
Graph hoist_from_scans(Graph graph);

}  // namespace lamina::passes
