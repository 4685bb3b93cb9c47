// Tags that a graph gives its values: what a SavePolicy chooses from.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "graph/graph.h"

namespace lamina::autodiff {

// The value's tag, "" without one. What attention keeps for its gradient beside its output, the
// log-sum-exp, is called "context" without anybody having said so: plugins never see it.
std::string_view tag_of(const Graph& graph, ValueId value);

// The tags that values of the graph have, those in bodies of scans included.
std::set<std::string> tags_in(const Graph& graph);

}  // namespace lamina::autodiff
