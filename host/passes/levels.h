// A graph and the bodies of the scans in it: each is a level, and a pass changes one at a time.
#pragma once

#include <functional>
#include <optional>

#include "graph/graph.h"

namespace lamina::passes {

// What a pass makes of one level; nothing when that would be the same.
using LevelPass = std::function<std::optional<Graph>(const Graph&)>;

// Applies `pass` to the bodies of scans, innermost first, then to the graph around them. A body
// that several scans share is transformed once and stays shared; one of which the pass makes
// nothing stays the same object.
Graph on_all_levels(Graph graph, const LevelPass& pass);

}  // namespace lamina::passes
