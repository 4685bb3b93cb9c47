#include "ops/required_flops.h"

#include <vector>

#include "graph/call.h"

namespace lamina::ops {
namespace {

// Maximum number of keys that a query may use with the mask `v`; 0 = any number, or not a mask.
std::int64_t keys_kept_by(const Graph& graph, ValueId v) {
  if (v == kNoValue || graph.value(v).node == kNoNode) return 0;
  const Node& mask = graph.node(graph.value(v).node);
  if (!mask.op->def->cost.keys_kept) return 0;
  return with_node_view(graph, mask, mask.op->def->cost.keys_kept);
}

}  // namespace

double required_flops(const Graph& graph, std::int64_t start) {
  double flops = 0;
  for (const Node& node : graph.nodes()) flops += required_flops(graph, node, start);
  return flops;
}

double required_flops(const Graph& graph, const Node& node, std::int64_t start) {
  if (node.op->def->facts.loops)
    return static_cast<double>(node.int_attr("times")) * required_flops(*node.body(), start);
  const OpCost& cost = node.op->def->cost;
  if (!cost.flops) return 0;
  std::vector<std::int64_t> kept;
  for (ValueId v : node.inputs) kept.push_back(keys_kept_by(graph, v));
  return with_node_view(graph, node, [&](const NodeView& view) {
    return cost.flops(view, {.start = start, .keys_kept = kept});
  });
}

}  // namespace lamina::ops
