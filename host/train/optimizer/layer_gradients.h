// Gradients that are there before the backward pass ends: those of a layer, when its round is over.
#pragma once

#include <span>
#include <vector>

#include "decoder/roles/model_graph.h"
#include "graph/graph.h"

namespace lamina::train {

// Gradients of the layers that a scan runs over backwards. When it has done element e, that of
// parameter members[e] is whole, and nothing reads this parameter any more in the graph.
struct LayerGradient {
  NodeId scan = kNoNode;
  std::vector<int> members;
};

// Of a graph with gradients, one per output of the role gradient of which that is true. Lists of
// rows are not among them.
std::vector<LayerGradient> layer_gradients(const Graph& graph,
                                           std::span<const decoder::InputRole> inputs,
                                           std::span<const decoder::OutputRole> outputs);

}  // namespace lamina::train
