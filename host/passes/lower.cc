#include "passes/lower.h"

#include <memory>
#include <optional>
#include <set>

#include "graph/call.h"
#include "graph/rewrite.h"
#include "passes/levels.h"

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

// Lowers the nodes of a level that `keep` refuses, then the resulting nodes, and so on. `keep` is
// not called again for a node that was kept.
std::optional<Graph> lower_level(const Graph& level, const Keep& keep) {
  std::optional<Graph> out;
  std::vector<bool> settled;  // nodes of `out` that are kept
  for (;;) {
    const Graph& graph = out ? *out : level;
    settled.resize(graph.nodes().size());
    std::vector<bool> refused(graph.nodes().size());
    bool any = false;
    for (NodeId n = 0; n < graph.nodes().size(); ++n) {
      const Node& node = graph.node(n);
      refused[n] = !settled[n] && node.op->def->lower && !keep(graph, node);
      any = any || refused[n];
    }
    if (!any) return out;
    Graph next;
    settled.clear();
    Copier copy(graph, next);
    copy.inputs();
    for (NodeId n = 0; n < graph.nodes().size(); ++n) {
      const Node& node = graph.node(n);
      if (!refused[n]) {
        copy.node(node);
        settled.resize(next.nodes().size(), true);
        continue;
      }
      std::vector<Tensor> results = lowered(node, next, copy.operands(node));
      for (std::size_t i = 0; i < results.size(); ++i) copy.set(node.outputs[i], results[i]);
      settled.resize(next.nodes().size(), false);
    }
    copy.outputs();
    out = std::move(next);
  }
}

// Lowers the bodies of scans that are in `out` but not in `level`: a lowering may contain a scan,
// whose body was not a level.
void lower_new_bodies(const Graph& level, Graph& out, const Keep& keep) {
  const auto is_scan = [](const Node& node) { return node.op->def->facts.loops; };
  std::set<std::shared_ptr<const Graph>> done;
  for (const Node& node : level.nodes())
    if (is_scan(node)) done.insert(node.body());
  for (NodeId n = 0; n < out.nodes().size(); ++n) {
    if (!is_scan(out.node(n)) || done.contains(out.node(n).body())) continue;
    const Graph body = *out.node(n).body();
    out.replace_body(n, std::make_shared<const Graph>(lower(body, keep)), {});
  }
}

}  // namespace

Graph lower(Graph graph, const Keep& keep) {
  return on_all_levels(std::move(graph), [&](const Graph& level) {
    std::optional<Graph> out = lower_level(level, keep);
    if (out) lower_new_bodies(level, *out, keep);
    return out;
  });
}

Graph lower_spellings(Graph graph) {
  return lower(std::move(graph),
               [](const Graph&, const Node& node) { return !node.op->def->always_lower; });
}

}  // namespace lamina::passes
