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

// A node joins the groups that made its operands and makes them one, when its operands need nothing
// that is made from them outside the group.
class Grouping {
 public:
  explicit Grouping(const Graph& graph) : graph_(graph), group_of_(graph.nodes().size(), -1) {
    for (std::size_t n = 0; n < graph.nodes().size(); ++n) place(static_cast<NodeId>(n));
  }

  int group_of(NodeId n) const { return group_of_[n]; }
  // The members of a group, in the order of the list.
  const std::vector<NodeId>& members(int group) const {
    return groups_[static_cast<std::size_t>(group)];
  }

 private:
  void place(NodeId n) {
    const Node& node = graph_.node(n);
    if (!node.op->def->elementwise || graph_.type(node.outputs[0]).num_elements() == 0) return;
    const int own = static_cast<int>(groups_.size());
    groups_.push_back({n});
    group_of_[n] = own;
    for (ValueId v : node.inputs) {
      if (v == kNoValue) continue;
      NodeId producer = graph_.value(v).node;
      if (producer == kNoNode || group_of_[producer] < 0 || group_of_[producer] == own) continue;
      if (may_merge(group_of_[producer], own, n)) merge(group_of_[producer], own);
    }
  }

  bool in_either(NodeId n, int a, int b) const {
    return n != kNoNode && (group_of_[n] == a || group_of_[n] == b);
  }

  // Whether groups `a` and `b` can be one that ends with node `last`.
  bool may_merge(int a, int b, NodeId last) const {
    if (shape_of(a) != shape_of(b)) return false;
    if (members(a).size() + members(b).size() > kMaxNodes) return false;
    std::vector<ValueId> operands;
    for (int group : {a, b})
      for (NodeId m : members(group)) add_outside_operands(m, a, b, operands);
    if (operands.size() > kMaxOperands) return false;
    // The fused node stands where its last member stands: a reader of members before that, outside
    // of the group, forbids it.
    NodeId first = std::min(members(a).front(), members(b).front());
    for (NodeId m = first + 1; m < last; ++m) {
      if (in_either(m, a, b)) continue;
      for (ValueId v : graph_.node(m).inputs)
        if (v != kNoValue && in_either(graph_.value(v).node, a, b)) return false;
    }
    return true;
  }

  void merge(int from, int to) {
    auto& source = groups_[static_cast<std::size_t>(from)];
    auto& target = groups_[static_cast<std::size_t>(to)];
    for (NodeId m : source) group_of_[m] = to;
    target.insert(target.end(), source.begin(), source.end());
    std::ranges::sort(target);
    source.clear();
  }

  const Shape& shape_of(int group) const {
    return graph_.type(graph_.node(members(group).front()).outputs[0]).shape;
  }

  void add_outside_operands(NodeId n, int a, int b, std::vector<ValueId>& operands) const {
    for (ValueId v : graph_.node(n).inputs) {
      if (v == kNoValue || in_either(graph_.value(v).node, a, b)) continue;
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

}  // namespace lamina::passes
