#include "passes/fuse_linears.h"

#include <algorithm>
#include <unordered_map>

#include "graph/rewrite.h"
#include "ops/operands.h"
#include "ops/tensor.h"
#include "passes/levels.h"

namespace lamina::passes {
namespace {

namespace in = operand::linear;

std::optional<Graph> group_level(const Graph& graph) {
  std::unordered_map<ValueId, std::vector<NodeId>> by_input;
  for (NodeId n = 0; n < graph.nodes().size(); ++n)
    if (graph.node(n).op->def->facts.product == Product::rows)
      by_input[graph.node(n).inputs[in::kX]].push_back(n);
  // The group is placed at its first member: the other weights must exist there.
  auto exists_before = [&](ValueId v, NodeId n) {
    return v == kNoValue || graph.value(v).node == kNoNode || graph.value(v).node < n;
  };
  std::unordered_map<NodeId, std::vector<NodeId>> groups;  // by first member
  std::vector<bool> absorbed(graph.nodes().size());
  for (auto& [input, members] : by_input) {
    NodeId first = members.front();
    std::erase_if(members, [&](NodeId n) {
      const Node& node = graph.node(n);
      return !exists_before(node.inputs[in::kW], first) ||
             !exists_before(node.inputs[in::kBias], first);
    });
    if (members.size() < 2) continue;
    for (NodeId n : members) absorbed[n] = n != first;
    groups[first] = members;
  }
  if (groups.empty()) return std::nullopt;

  Graph out;
  Copier copy(graph, out);
  copy.inputs();
  for (NodeId n = 0; n < graph.nodes().size(); ++n) {
    if (absorbed[n]) continue;
    auto found = groups.find(n);
    if (found == groups.end()) {
      copy.node(graph.node(n));
      continue;
    }
    const Tensor x = copy.get(graph.node(n).inputs[in::kX]);
    std::vector<Tensor> operands, biases;
    std::vector<std::int64_t> has_bias;
    for (NodeId m : found->second) {
      const Node& node = graph.node(m);
      operands.push_back(copy.get(node.inputs[in::kW]));
      Tensor bias = copy.get(node.inputs[in::kBias]);
      has_bias.push_back(bias ? 1 : 0);
      if (bias) biases.push_back(bias);
    }
    operands.insert(operands.end(), biases.begin(), biases.end());
    out.set_origin(graph.node(n).origin);
    auto made = ops::linear_group(x, operands, {.biases = has_bias});
    for (std::size_t i = 0; i < made.size(); ++i)
      copy.set(graph.node(found->second[i]).outputs[0], made[i]);
  }
  copy.outputs();
  return out;
}

}  // namespace

Graph group_linears(Graph graph) { return on_all_levels(std::move(graph), group_level); }

}  // namespace lamina::passes
