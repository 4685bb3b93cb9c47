#include "passes/fuse_elementwise.h"

#include <algorithm>
#include <memory>

#include "graph/rewrite.h"
#include "ops/registry.h"
#include "passes/bodies.h"

namespace lamina::passes {
namespace {

// Operands and results of one fused node: bounded so that its tiles stay in the first-level cache.
constexpr std::size_t kMaxOperands = 16;
constexpr std::size_t kMaxNodes = 48;

// Groups are runs over the list: a node joins the group of a producer when no node outside the
// group lies on a path between them. It is enough that every operand from outside the group is made
// before the group's first node, or that all its consumers come after its last.
class Grouping {
 public:
  explicit Grouping(const Graph& graph) : graph_(graph), group_of_(graph.nodes().size(), -1) {
    for (std::size_t n = 0; n < graph.nodes().size(); ++n) place(static_cast<NodeId>(n));
  }

  int group_of(NodeId n) const { return group_of_[n]; }
  const std::vector<std::vector<NodeId>>& groups() const { return groups_; }

 private:
  // The group a node may join: one that made an operand, of the same shape, and such that no
  // operand of the node depends on the group through a node outside it.
  void place(NodeId n) {
    const Node& node = graph_.node(n);
    if (!node.op->def->elementwise || graph_.type(node.outputs[0]).num_elements() == 0) return;
    const Shape& shape = graph_.type(node.outputs[0]).shape;
    int best = -1;
    for (ValueId v : node.inputs) {
      if (v == kNoValue) continue;
      NodeId producer = graph_.value(v).node;
      if (producer == kNoNode || group_of_[producer] < 0) continue;
      int group = group_of_[producer];
      if (group > best && shape_of(group) == shape && may_join(n, group)) best = group;
    }
    if (best < 0) {
      best = static_cast<int>(groups_.size());
      groups_.emplace_back();
    }
    group_of_[n] = best;
    groups_[static_cast<std::size_t>(best)].push_back(n);
  }

  const Shape& shape_of(int group) const {
    return graph_.type(graph_.node(groups_[static_cast<std::size_t>(group)].front()).outputs[0])
        .shape;
  }

  bool may_join(NodeId n, int group) const {
    const auto& members = groups_[static_cast<std::size_t>(group)];
    if (members.size() >= kMaxNodes) return false;
    std::vector<ValueId> operands;
    for (NodeId m : members) add_outside_operands(m, group, operands);
    add_outside_operands(n, group, operands);
    if (operands.size() > kMaxOperands) return false;
    // The fused node will stand where its last member stands; members move down to it, so nobody
    // between may read them, and it may read anything before it. Readers of members between the
    // first member and n, outside the group, forbid it.
    NodeId first = members.front();
    for (NodeId m = first + 1; m < n; ++m) {
      if (group_of_[m] == group) continue;
      for (ValueId v : graph_.node(m).inputs) {
        if (v == kNoValue) continue;
        NodeId producer = graph_.value(v).node;
        if (producer != kNoNode && group_of_[producer] == group) return false;
      }
    }
    return true;
  }

  void add_outside_operands(NodeId n, int group, std::vector<ValueId>& operands) const {
    for (ValueId v : graph_.node(n).inputs) {
      if (v == kNoValue) continue;
      NodeId producer = graph_.value(v).node;
      if (producer != kNoNode && group_of_[producer] == group) continue;
      if (std::ranges::find(operands, v) == operands.end()) operands.push_back(v);
    }
  }

  const Graph& graph_;
  std::vector<int> group_of_;
  std::vector<std::vector<NodeId>> groups_;
};

void emit_group(const Graph& graph, const std::vector<NodeId>& members,
                const std::vector<bool>& read_outside, Copier& copy, Graph& out) {
  Graph body;
  Copier inside(graph, body);
  std::vector<Tensor> operands;
  std::vector<ValueId> results;
  for (NodeId n : members) {
    for (ValueId v : graph.node(n).inputs) {
      if (v == kNoValue || inside.has(v)) continue;
      inside.set(v, body.add_input(std::to_string(operands.size()), graph.type(v)));
      operands.push_back(copy.get(v));
    }
    inside.node(graph.node(n));
  }
  for (NodeId n : members)
    for (ValueId v : graph.node(n).outputs)
      if (read_outside[v]) {
        body.add_output(std::to_string(results.size()), inside.get(v));
        results.push_back(v);
      }
  if (operands.empty() || results.empty()) {
    for (NodeId n : members) copy.node(graph.node(n));
    return;
  }
  out.set_origin(graph.node(members.back()).origin);
  std::pair<std::string_view, AttrValue> attr{"body",
                                              std::make_shared<const Graph>(std::move(body))};
  std::vector<Tensor> made = out.add_node(ops::get("fused_map"), operands, std::span(&attr, 1));
  for (std::size_t i = 0; i < made.size(); ++i) copy.set(results[i], made[i]);
}

}  // namespace

Graph fuse_elementwise(const Graph& original) {
  Graph graph = with_bodies(original, fuse_elementwise);
  Grouping grouping(graph);

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
    const auto& members = grouping.groups()[static_cast<std::size_t>(group)];
    if (n != members.back()) continue;
    if (members.size() == 1)
      copy.node(graph.node(n));
    else
      emit_group(graph, members, read_outside, copy, out);
  }
  copy.outputs();
  return out;
}

}  // namespace lamina::passes
