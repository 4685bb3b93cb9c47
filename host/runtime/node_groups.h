// Groups of nodes that one kernel call computes.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "runtime/backend.h"
#include "runtime/kernel_group.h"

namespace lamina {

// Adds to the kernel of node `first` the nodes of its op that follow, up to the first one that
// needs a result of the group, may change what the group reads, has another kernel than `choice`,
// or whose results would need much memory beside the group's. There may be views between them.
// Returns the nodes of the group in ascending order.
std::vector<NodeId> add_following_nodes(const Graph& graph, const Backend& backend, NodeId first,
                                        const KernelChoice& choice, KernelGroup& kernel);

// Returns the type of the first result, for people: "f32[16, 8]", or "f32[16, 8] and 20 more" for a
// group.
std::string result_text(const Graph& graph, std::span<const NodeId> nodes);

}  // namespace lamina
