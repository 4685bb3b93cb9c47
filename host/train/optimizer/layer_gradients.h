// Gradients that are complete before the backward pass ends: a layer's, when its round is over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "decoder/roles/model_graph.h"
#include "graph/graph.h"

namespace lamina::train {

// Gradients of the layers that a scan runs over backwards. After element e the gradient of
// parameter members[e] is complete, and nothing later in the graph reads this parameter.
struct LayerGradient {
  std::size_t output = 0;  // of the graph
  NodeId scan = kNoNode;
  std::uint32_t result = 0;  // of the scan: the gradient of each element
  std::vector<int> members;
};

// Returns the layer gradients of a graph with gradients: at most one per output of the role
// gradient, none for lists of rows.
std::vector<LayerGradient> layer_gradients(const Graph& graph,
                                           std::span<const decoder::InputRole> inputs,
                                           std::span<const decoder::OutputRole> outputs);

}  // namespace lamina::train
