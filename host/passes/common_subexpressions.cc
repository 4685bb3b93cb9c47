#include "passes/common_subexpressions.h"

#include <unordered_map>

#include "graph/rewrite.h"
#include "passes/bodies.h"

namespace lamina::passes {
namespace {

bool same_node(const Graph& graph, const Node& a, const Node& b) {
  if (a.op != b.op || a.inputs != b.inputs || a.outputs.size() != b.outputs.size()) return false;
  for (std::size_t i = 0; i < a.attrs.size(); ++i)
    if (!same_attr(a.attrs[i], b.attrs[i])) return false;
  for (std::size_t i = 0; i < a.outputs.size(); ++i)
    if (graph.value(a.outputs[i]).tag != graph.value(b.outputs[i]).tag) return false;
  return true;
}

std::size_t hash_node(const Node& node) {
  std::size_t h = node.op->id;
  for (ValueId v : node.inputs) h = h * 1000003 + v;
  for (const AttrValue& attr : node.attrs) {
    if (auto i = std::get_if<std::int64_t>(&attr)) h = h * 31 + static_cast<std::size_t>(*i);
    if (auto f = std::get_if<double>(&attr)) h = h * 31 + std::hash<double>{}(*f);
  }
  return h;
}

}  // namespace

Graph merge_common_subexpressions(const Graph& original) {
  Graph graph = with_bodies(original, merge_common_subexpressions);
  Graph out;
  Copier copy(graph, out);
  copy.inputs();
  std::unordered_multimap<std::size_t, NodeId> seen;  // nodes of `out` by hash
  for (const Node& node : graph.nodes()) {
    if (node.op->def->in_place || node.op->name == "scan") {
      copy.node(node);
      continue;
    }
    NodeId id = static_cast<NodeId>(out.nodes().size());
    std::vector<Tensor> made = out.add_node_like(node, copy.operands(node));
    for (std::size_t i = 0; i < made.size(); ++i) copy.set(node.outputs[i], made[i]);
    std::size_t hash = hash_node(out.node(id));
    auto [begin, end] = seen.equal_range(hash);
    const NodeId* twin = nullptr;
    for (auto it = begin; it != end && !twin; ++it)
      if (same_node(out, out.node(it->second), out.node(id))) twin = &it->second;
    if (!twin) {
      seen.emplace(hash, id);
      continue;
    }
    // The node just made has no readers: it falls to dead-code removal.
    for (std::size_t i = 0; i < made.size(); ++i)
      copy.set(node.outputs[i], out.tensor(out.node(*twin).outputs[i]));
  }
  copy.outputs();
  return out;
}

}  // namespace lamina::passes
