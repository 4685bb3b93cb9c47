// The gradient of a plugin's op, if the plugin has a kernel for it.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"

namespace lamina::autodiff {

// Returns whether it has one; else the body of the node is differentiated, like the lowering of
// other ops.
bool has_own_gradient(const Node& node);

// Appends one node whose body is the gradient of the node's body. Returns the cotangents of the
// inputs, one each; null if there is none. REQUIRES: has_own_gradient(node).
std::vector<Tensor> custom_gradient(Graph& graph, const Node& node, std::span<const Tensor> cts);

}  // namespace lamina::autodiff
