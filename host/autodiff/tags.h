// Tags of a graph's values, from which a SavePolicy selects.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "graph/graph.h"

namespace lamina::autodiff {

// Returns the value's tag, "" if it has none. The log-sum-exp, which attention keeps for its
// gradient beside its output, has the implicit tag "context": plugins never see it.
std::string_view tag_of(const Graph& graph, ValueId value);

// Returns the tags of the graph's values, including those in bodies of scans.
std::set<std::string> tags_in(const Graph& graph);

}  // namespace lamina::autodiff
