// Replaces ops by smaller ops.
#pragma once

#include <functional>

#include "graph/graph.h"

namespace lamina::passes {

// Lowers every node that `keep` refuses, repeatedly, until all are kept or are primitives, also in
// bodies of scans. A refused primitive stays; the runtime reports it.
Graph lower(Graph graph, const std::function<bool(const Graph&, const Node&)>& keep);

// Lowers the ops that are syntactic sugar (OpDef::always_lower); for a fresh trace.
Graph lower_spellings(Graph graph);

}  // namespace lamina::passes
