// The rounds of a backward pass, after which layers can be updated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "decoder/model.h"
#include "train/optimizer/row_gradients.h"

namespace lamina::train {

// One iteration of a scan of the graph, after which the gradients of these parameters are complete.
// Nothing later in the graph reads the parameters.
struct BackwardRound {
  NodeId scan = kNoNode;
  std::int64_t element = 0;
  std::vector<int> parameters;
};

// Returns the rounds of a graph with gradients, in the order in which they run.
std::vector<BackwardRound> backward_rounds(const Graph& graph,
                                           std::span<const decoder::InputRole> inputs,
                                           std::span<const decoder::OutputRole> outputs);

// Adds the rounds of the graph to its lists. Their gradients share memory: the rounds write
// `places` in turn. With one place a gradient lives until its round is over, with two until the
// next one is.
void share_rounds(const decoder::ModelGraph& graph, const decoder::ParameterTable& parameters,
                  std::size_t places, GradientLists& lists);

// Returns the lists with which an update changes the parameters of one round, and no others.
GradientLists lists_of_round(const GradientLists& lists, std::size_t round);

}  // namespace lamina::train
