// Replaces ops by the smaller ops they mean.
#pragma once

#include <functional>

#include "graph/graph.h"

namespace lamina::passes {

// Lowers every node that `keep` refuses, again and again, until all are kept or are primitives;
// bodies of scans too. A primitive that is refused stays, for the runtime to name.
Graph lower(Graph graph, const std::function<bool(const Graph&, const Node&)>& keep);

// Lowers the ops that are only syntactic sugar (OpDef::always_lower): run on a fresh trace.
Graph lower_spellings(Graph graph);

}  // namespace lamina::passes
