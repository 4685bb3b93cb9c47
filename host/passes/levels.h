// A graph and the bodies of its scans: each is a level, and a pass changes one at a time.
#pragma once

#include <functional>
#include <optional>

#include "graph/graph.h"

namespace lamina::passes {

// Returns the result of a pass for one level; nothing if it is unchanged.
using LevelPass = std::function<std::optional<Graph>(const Graph&)>;

// Applies `pass` to the bodies of scans, innermost first, then to the graph around them. A body
// shared by several scans is transformed once and stays shared; an unchanged body stays the same
// object.
Graph on_all_levels(Graph graph, const LevelPass& pass);

}  // namespace lamina::passes
