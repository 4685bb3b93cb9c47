#include "passes/share_bodies.h"

#include <algorithm>

#include "passes/levels.h"

namespace lamina::passes {
namespace {

std::optional<Graph> share_level(const Graph& graph) {
  std::optional<Graph> out;
  std::vector<std::shared_ptr<const Graph>> distinct;
  for (NodeId n = 0; n < graph.nodes().size(); ++n) {
    if (!graph.node(n).op->def->facts.loops) continue;
    const std::shared_ptr<const Graph>& body = graph.node(n).body();
    auto same = std::ranges::find_if(
        distinct, [&](const auto& known) { return known == body || same_graph(*known, *body); });
    if (same == distinct.end()) {
      distinct.push_back(body);
    } else if (*same != body) {
      if (!out) out = graph;
      out->replace_body(n, *same, {});
    }
  }
  return out;
}

}  // namespace

Graph share_bodies(Graph graph) { return on_all_levels(std::move(graph), share_level); }

}  // namespace lamina::passes
