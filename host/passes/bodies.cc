#include "passes/bodies.h"

#include "graph/rewrite.h"

namespace lamina::passes::detail {
namespace {

const std::shared_ptr<const Graph>* body_of(const Node& node) {
  return node.op->name == "scan" ? &node.body() : nullptr;
}

}  // namespace

std::vector<std::shared_ptr<const Graph>> scan_bodies(const Graph& graph) {
  std::vector<std::shared_ptr<const Graph>> out;
  for (const Node& node : graph.nodes())
    if (const auto* body = body_of(node)) out.push_back(*body);
  return out;
}

Graph replace_bodies(const Graph& graph, const BodyMap& bodies) {
  Graph out;
  Copier copy(graph, out);
  copy.inputs();
  for (const Node& node : graph.nodes()) {
    if (const auto* body = body_of(node)) {
      Node changed = node;
      changed.attrs[static_cast<std::size_t>(node.op->attr_index("body"))] = bodies.at(body->get());
      copy.node(changed);
    } else {
      copy.node(node);
    }
  }
  copy.outputs();
  return out;
}

}  // namespace lamina::passes::detail
