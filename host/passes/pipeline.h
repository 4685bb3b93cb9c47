// The order of the passes from a trace to the graph that a backend runs.
#pragma once

#include <functional>
#include <string_view>

#include "graph/graph.h"

namespace lamina::passes {

// Called after each pass with its name and its result.
using Observer = std::function<void(std::string_view pass, const Graph& graph)>;

// Run before differentiation and again after it: lowers syntactic sugar, merges equal work, hoists
// layer-invariant work, removes dead code.
Graph simplify(Graph graph, const Observer& observer = {});

// For a simplified graph: fuses sums, projections and cache writes where `supports` has a kernel
// for the result, lowers ops without a kernel, fuses elementwise chains.
Graph optimize(Graph graph, const std::function<bool(const Graph&, const Node&)>& supports,
               const Observer& observer = {});

}  // namespace lamina::passes
