#include "graph/written_over.h"

#include <algorithm>
#include <cstdint>

#include "graph/views.h"

namespace lamina {

ValueId always_written_over(const Node& node, std::size_t i) {
  if (static_cast<int>(i) < node.op->def->in_place) return node.inputs[i];
  if (!node.op->def->facts.loops) return kNoValue;
  int input = node.body()->outputs()[i].alias_input;
  return input < 0 ? kNoValue : node.inputs[static_cast<std::size_t>(input)];
}

Overwrites::Overwrites(const Graph& graph) : by_(graph.values().size(), kNoNode) {
  bool any = false;
  for (NodeId n = 0; n < graph.nodes().size(); ++n) {
    const Node& node = graph.node(n);
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      if (const ValueId v = always_written_over(node, i); v != kNoValue)
        by_[made_at(graph, v)] = n, any = true;
  }
  if (!any) return;
  std::int64_t offset;
  for (const Node& node : graph.nodes())
    if (is_view(graph, node, &offset)) by_[node.outputs[0]] = by_[node.inputs[0]];
}

bool Overwrites::forbid(const Node& node, NodeId place) const {
  return std::ranges::any_of(node.inputs, [&](ValueId v) { return of(v) < place; });
}

}  // namespace lamina
