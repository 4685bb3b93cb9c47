// Replaces equal bodies of scans by one shared body.
#pragma once

#include "graph/graph.h"

namespace lamina::passes {

// Unrolled layers are scans of length one; equal ones (and their transposes) then compile once.
Graph share_bodies(Graph graph);

}  // namespace lamina::passes
