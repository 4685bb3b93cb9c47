#include "inspect/cost/expert_share.h"

#include <algorithm>

namespace lamina::inspect {
namespace {

// Lowers the share of every input that `value` is made of.
void mark(const Graph& graph, ValueId value, double share, std::vector<double>& shares) {
  std::vector<ValueId> open{value};
  std::vector<bool> seen(graph.values().size());
  while (!open.empty()) {
    ValueId id = open.back();
    open.pop_back();
    if (id == kNoValue || seen[id]) continue;
    seen[id] = true;
    const Value& v = graph.value(id);
    if (v.node == kNoNode)
      shares[v.index] = std::min(shares[v.index], share);
    else
      std::ranges::copy(graph.node(v.node).inputs, std::back_inserter(open));
  }
}

}  // namespace

std::vector<double> used_shares(const Graph& graph) {
  std::vector<double> shares(graph.inputs().size(), 1.0);
  for (const Node& node : graph.nodes()) {
    if (node.op->name == "scan") {
      std::vector<double> inner = used_shares(*node.body());
      for (std::size_t i = 0; i < inner.size(); ++i)
        if (inner[i] < 1) mark(graph, node.inputs[i], inner[i], shares);
    }
    if (node.op->name != "grouped_linear") continue;
    const Type& rows = graph.type(node.inputs[0]);
    const Type& experts = graph.type(node.inputs[1]);
    double share =
        std::min(1.0, static_cast<double>(rows.dim(0)) / static_cast<double>(experts.dim(0)));
    mark(graph, node.inputs[1], share, shares);
    if (node.inputs.size() > 3) mark(graph, node.inputs[3], share, shares);
  }
  return shares;
}

}  // namespace lamina::inspect
