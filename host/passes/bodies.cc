#include "passes/bodies.h"

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
  Graph out = graph;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i)
    if (const auto* body = body_of(graph.nodes()[i]))
      out.replace_body(static_cast<NodeId>(i), bodies.at(body->get()), {});
  return out;
}

}  // namespace lamina::passes::detail
