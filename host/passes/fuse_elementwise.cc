#include "passes/fuse_elementwise.h"

#include <map>
#include <memory>

#include "graph/rewrite.h"
#include "ops/tensor.h"
#include "passes/elementwise_groups.h"
#include "passes/levels.h"
#include "passes/repeat_elementwise.h"

namespace lamina::passes {
namespace {

void emit_group(const Graph& graph, const std::vector<NodeId>& members,
                const std::vector<bool>& read_outside, Copier& copy, Graph& out) {
  Graph body;
  std::map<ValueId, ValueId> inside;
  std::vector<Tensor> operands;
  std::vector<ValueId> results;
  for (NodeId n : members) {
    const Node& node = graph.node(n);
    ValueList inputs;
    for (ValueId v : node.inputs) {
      if (v != kNoValue && !inside.contains(v)) {
        inside[v] = body.add_input(std::to_string(operands.size()), graph.type(v)).id;
        operands.push_back(copy.get(v));
      }
      inputs.push_back(v == kNoValue ? v : inside[v]);
    }
    NodeId made = body.add_copy(graph, node, std::move(inputs));
    for (std::size_t i = 0; i < node.outputs.size(); ++i)
      inside[node.outputs[i]] = body.node(made).outputs[i];
  }
  for (NodeId n : members)
    for (ValueId v : graph.node(n).outputs)
      if (read_outside[v]) {
        body.add_output(std::to_string(results.size()), body.tensor(inside[v]));
        results.push_back(v);
      }
  if (operands.empty() || results.empty()) {
    for (NodeId n : members) copy.node(graph.node(n));
    return;
  }
  out.set_origin(graph.node(members.back()).origin);
  std::vector<Tensor> made =
      ops::fused_map(operands, {.body = std::make_shared<const Graph>(std::move(body))});
  for (std::size_t i = 0; i < made.size(); ++i) copy.set(results[i], made[i]);
}

std::optional<Graph> fuse_groups(const Graph& graph, const ElementwiseGroups& grouping) {
  if (!grouping.any()) return std::nullopt;

  std::vector<bool> read_outside(graph.values().size());
  for (const GraphOutput& output : graph.outputs()) read_outside[output.value] = true;
  for (NodeId n = 0; n < graph.nodes().size(); ++n)
    for (ValueId v : graph.node(n).inputs) {
      if (v == kNoValue || graph.value(v).node == kNoNode) continue;
      if (grouping.group_of(n) < 0 ||
          grouping.group_of(graph.value(v).node) != grouping.group_of(n))
        read_outside[v] = true;
    }

  Graph out;
  Copier copy(graph, out);
  copy.inputs();
  for (NodeId n = 0; n < graph.nodes().size(); ++n) {
    int group = grouping.group_of(n);
    if (group < 0) {
      copy.node(graph.node(n));
      continue;
    }
    const auto& members = grouping.members(group);
    if (n != members.back()) continue;
    if (members.size() == 1)
      copy.node(graph.node(n));
    else
      emit_group(graph, members, read_outside, copy, out);
  }
  copy.outputs();
  return out;
}

std::optional<Graph> fuse_level(const Graph& graph) {
  const ElementwiseGroups groups(graph);
  const std::optional<Graph> repeated = repeat_elementwise(graph, groups);
  return repeated ? fuse_groups(*repeated, ElementwiseGroups(*repeated))
                  : fuse_groups(graph, groups);
}

}  // namespace

Graph fuse_elementwise(Graph graph) { return on_all_levels(std::move(graph), fuse_level); }

}  // namespace lamina::passes
