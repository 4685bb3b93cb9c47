#include "inspect/cost/expert_share.h"

#include <algorithm>

#include "graph/call.h"
#include "ops/custom.h"

namespace lamina::inspect {
namespace {

// Lowers the share of every input that `value` depends on.
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
    if (node.op->def->facts.loops || ops::is_custom(*node.op)) {
      std::vector<double> inner = used_shares(*node.body());
      std::size_t next = 0;  // index among the present operands
      for (ValueId v : node.inputs)
        if (v != kNoValue && inner[next++] < 1) mark(graph, v, inner[next - 1], shares);
      continue;
    }
    const OpCost& cost = node.op->def->cost;
    if (!cost.flops || !cost.share_read) continue;
    with_node_view(graph, node, [&](const NodeView& view) {
      for (int i = 0; i < view.num_inputs(); ++i)
        if (double share = cost.share_read(view, i); view.has(i) && share < 1)
          mark(graph, node.inputs[static_cast<std::size_t>(i)], share, shares);
    });
  }
  return shares;
}

}  // namespace lamina::inspect
