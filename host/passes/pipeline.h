// The order of the passes from a trace to what a backend runs.
#pragma once

#include <functional>
#include <string_view>

#include "graph/graph.h"

namespace lamina::passes {

// Told after each pass: its name and the graph it made.
using Observer = std::function<void(std::string_view pass, const Graph& graph)>;

// Before differentiation and again after it: syntactic sugar lowered, equal work merged,
// layer-invariant work hoisted, dead code removed.
Graph simplify(Graph graph, const Observer& observer = {});

// Of a simplified graph: sums and projections fused where `supports` has a kernel for the result,
// ops without a kernel lowered, elementwise chains fused.
Graph optimize(Graph graph, const std::function<bool(const Graph&, const Node&)>& supports,
               const Observer& observer = {});

}  // namespace lamina::passes
