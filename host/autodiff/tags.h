// Tags that a graph gives its values: what a SavePolicy chooses from.
#pragma once

#include <set>
#include <string>

#include "graph/graph.h"

namespace lamina::autodiff {

// The tags that values of the graph have, those in bodies of scans included.
std::set<std::string> tags_in(const Graph& graph);

}  // namespace lamina::autodiff
