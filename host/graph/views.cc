#include "graph/views.h"

#include "graph/call.h"

namespace lamina {

bool is_view(const Graph& graph, const Node& node, std::int64_t* offset_bytes) {
  if (!node.op->def->view) return false;
  const Type& in = graph.type(node.inputs[0]);
  auto offset =
      with_node_view(graph, node, [&](const NodeView& n) { return node.op->def->view(n); });
  if (!offset) return false;
  *offset_bytes = *offset * size_bytes(in.dtype);
  return true;
}

ValueId made_at(const Graph& graph, ValueId v) {
  std::int64_t offset;
  while (graph.value(v).node != kNoNode && is_view(graph, graph.node(graph.value(v).node), &offset))
    v = graph.node(graph.value(v).node).inputs[0];
  return v;
}

}  // namespace lamina
