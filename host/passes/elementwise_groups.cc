#include "passes/elementwise_groups.h"

#include <algorithm>
#include <numeric>

namespace lamina::passes {

ElementwiseGroups::ElementwiseGroups(const Graph& graph)
    : graph_(graph), overwrites_(graph), group_of_(graph.nodes().size(), -1) {
  find_readers();
  for (NodeId n = 0; n < graph.nodes().size(); ++n) place(n);
}

void ElementwiseGroups::find_readers() {
  first_reader_.assign(graph_.nodes().size() + 1, 0);
  auto each_read = [&](auto use) {
    for (NodeId n = 0; n < graph_.nodes().size(); ++n)
      for (ValueId v : graph_.node(n).inputs)
        if (v != kNoValue && graph_.value(v).node != kNoNode) use(graph_.value(v).node, n);
  };
  each_read([&](NodeId made_by, NodeId) { ++first_reader_[made_by + 1]; });
  std::partial_sum(first_reader_.begin(), first_reader_.end(), first_reader_.begin());
  std::vector<std::uint32_t> next = first_reader_;
  readers_.resize(first_reader_.back());
  each_read([&](NodeId made_by, NodeId reader) { readers_[next[made_by]++] = reader; });
}

// Returns the nodes that read a result of node `n`, in order.
std::span<const NodeId> ElementwiseGroups::readers_of(NodeId n) const {
  return std::span(readers_).subspan(first_reader_[n], first_reader_[n + 1] - first_reader_[n]);
}

void ElementwiseGroups::place(NodeId n) {
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

bool ElementwiseGroups::in_either(NodeId n, int a, int b) const {
  return n != kNoNode && (group_of_[n] == a || group_of_[n] == b);
}

// Returns whether groups `a` and `b` can become one that ends with node `last`.
bool ElementwiseGroups::may_merge(int a, int b, NodeId last) const {
  if (shape_of(a) != shape_of(b)) return false;
  if (members(a).size() + members(b).size() > kMaxGroupNodes) return false;
  std::vector<ValueId> operands;
  for (int group : {a, b})
    for (NodeId m : members(group)) add_outside_operands(m, a, b, operands);
  if (operands.size() > kMaxGroupOperands) return false;
  // The fused node is placed at its last member: a reader of members before that, outside the
  // group, forbids the merge, and so does a write over an operand.
  for (int group : {a, b})
    for (NodeId m : members(group)) {
      if (overwrites_.forbid(graph_.node(m), last)) return false;
      for (NodeId reader : readers_of(m)) {
        if (reader >= last) break;
        if (!in_either(reader, a, b)) return false;
      }
    }
  return true;
}

void ElementwiseGroups::merge(int from, int to) {
  auto& source = groups_[static_cast<std::size_t>(from)];
  auto& target = groups_[static_cast<std::size_t>(to)];
  for (NodeId m : source) group_of_[m] = to;
  target.insert(target.end(), source.begin(), source.end());
  std::ranges::sort(target);
  source.clear();
  any_ = true;
}

const Shape& ElementwiseGroups::shape_of(int group) const {
  return graph_.type(graph_.node(members(group).front()).outputs[0]).shape;
}

void ElementwiseGroups::add_outside_operands(NodeId n, int a, int b,
                                             std::vector<ValueId>& operands) const {
  for (ValueId v : graph_.node(n).inputs) {
    if (v == kNoValue || in_either(graph_.value(v).node, a, b)) continue;
    if (std::ranges::find(operands, v) == operands.end()) operands.push_back(v);
  }
}

}  // namespace lamina::passes
