#include "train/optimizer/backward_rounds.h"

#include <algorithm>
#include <map>

#include "core/round_up.h"
#include "train/optimizer/layer_gradients.h"

namespace lamina::train {

std::vector<BackwardRound> backward_rounds(const Graph& graph,
                                           std::span<const decoder::InputRole> inputs,
                                           std::span<const decoder::OutputRole> outputs) {
  std::map<NodeId, std::vector<LayerGradient>> by_scan;
  for (LayerGradient& gradient : layer_gradients(graph, inputs, outputs))
    by_scan[gradient.scan].push_back(std::move(gradient));
  std::vector<BackwardRound> out;
  for (const auto& [scan, gradients] : by_scan) {
    const std::int64_t times = graph.node(scan).int_attr("times");
    for (std::int64_t i = 0; i < times; ++i) {
      BackwardRound round{scan, graph.node(scan).int_attr("reverse") ? times - 1 - i : i, {}};
      for (const LayerGradient& gradient : gradients)
        round.parameters.push_back(gradient.members[static_cast<std::size_t>(round.element)]);
      out.push_back(std::move(round));
    }
  }
  return out;
}

void share_rounds(const decoder::ModelGraph& graph, const decoder::ParameterTable& parameters,
                  std::size_t places, GradientLists& lists) {
  lists.shared.assign(parameters.all().size(), -1);
  std::size_t largest = 0;
  for (BackwardRound& round : backward_rounds(graph.graph, graph.inputs, graph.outputs)) {
    std::size_t bytes = 0;
    for (const int parameter : round.parameters) {
      lists.shared[static_cast<std::size_t>(parameter)] = static_cast<std::int64_t>(bytes);
      bytes +=
          aligned(static_cast<std::size_t>(parameters[parameter].num_elements()) * sizeof(float));
    }
    largest = std::max(largest, bytes);
    lists.rounds.push_back(std::move(round.parameters));
  }
  for (std::size_t i = 0; i < lists.rounds.size(); ++i)
    for (const int parameter : lists.rounds[i])
      lists.shared[static_cast<std::size_t>(parameter)] +=
          static_cast<std::int64_t>(i % places * largest);
  lists.shared_bytes = std::min(places, lists.rounds.size()) * largest;
}

GradientLists lists_of_round(const GradientLists& lists, std::size_t round) {
  GradientLists out{.microbatch = lists.microbatch, .step = lists.step, .shared = {}};
  out.shared.assign(lists.shared.size(), 0);
  for (const int parameter : lists.rounds[round])
    out.shared[static_cast<std::size_t>(parameter)] = -1;
  return out;
}

}  // namespace lamina::train
