// The gradient of an op that a plugin brings, where the plugin has a kernel for it.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"

namespace lamina::autodiff {

// Whether it does; else the body of the node is differentiated, as what other ops mean is.
bool has_own_gradient(const Node& node);

// Appends one node, whose body is the gradient of the node's body. Cotangents of the inputs, one
// each; null where there is none. REQUIRES: has_own_gradient(node).
std::vector<Tensor> custom_gradient(Graph& graph, const Node& node, std::span<const Tensor> cts);

}  // namespace lamina::autodiff
