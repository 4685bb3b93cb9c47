// Ops that only give memory another shape.
#pragma once

#include <cstdint>

#include "graph/graph.h"

namespace lamina {

// Returns whether the node's result is the memory of its first input, from `offset_bytes` on.
bool is_view(const Graph& graph, const Node& node, std::int64_t* offset_bytes);

// Returns the value whose memory `v` is in: follows views to the value that a kernel writes.
ValueId made_at(const Graph& graph, ValueId v);

}  // namespace lamina
