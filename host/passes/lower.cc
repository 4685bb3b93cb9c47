#include "passes/lower.h"

#include "graph/call.h"
#include "graph/rewrite.h"
#include "passes/bodies.h"

namespace lamina::passes {
namespace {

using Keep = std::function<bool(const Graph&, const Node&)>;

std::vector<Tensor> lowered(const Node& node, Graph& out, std::span<const Tensor> inputs) {
  std::vector<Type> types(inputs.size());
  std::vector<const Type*> pointers(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i]) types[i] = inputs[i].type(), pointers[i] = &types[i];
  out.set_origin(node.origin);
  Call call(*node.op, pointers, node.attrs, node.origin.get());
  return node.op->def->lower(LowerCall(call, inputs));
}

// Nodes appended while lowering may need lowering themselves: `from` holds one lowered node.
Graph lower_once(const Graph& graph, const Keep& keep, bool* changed) {
  Graph out;
  Copier copy(graph, out);
  copy.inputs();
  for (const Node& node : graph.nodes()) {
    if (!node.op->def->lower || keep(graph, node)) {
      copy.node(node);
      continue;
    }
    *changed = true;
    std::vector<Tensor> results = lowered(node, out, copy.operands(node));
    for (std::size_t i = 0; i < results.size(); ++i) copy.set(node.outputs[i], results[i]);
  }
  copy.outputs();
  return out;
}

}  // namespace

Graph lower(const Graph& original, const Keep& keep) {
  Graph graph = with_bodies(original, [&](const Graph& body) { return lower(body, keep); });
  for (bool changed = true; changed;) {
    changed = false;
    graph = lower_once(graph, keep, &changed);
  }
  return graph;
}

Graph lower_spellings(const Graph& graph) {
  return lower(graph, [](const Graph&, const Node& node) { return !node.op->def->always_lower; });
}

}  // namespace lamina::passes
