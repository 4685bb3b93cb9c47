// Elementwise nodes of one level that can be computed in one pass over memory.
#pragma once

#include <span>
#include <vector>

#include "graph/graph.h"
#include "graph/written_over.h"

namespace lamina::passes {

// Operands and results of one fused node, bounded so that its tiles stay in the first-level cache.
inline constexpr std::size_t kMaxGroupOperands = 16;
inline constexpr std::size_t kMaxGroupNodes = 48;

// A node joins and merges the groups of its operands, unless its operands depend on values that are
// computed from these groups outside of them, or are written over before the last member.
class ElementwiseGroups {
 public:
  // REQUIRES: the graph outlives this.
  explicit ElementwiseGroups(const Graph& graph);

  // Returns whether a group has two members.
  bool any() const { return any_; }
  // Returns the group of a node, -1 if it has none.
  int group_of(NodeId n) const { return group_of_[n]; }
  // Returns the members of a group, in list order.
  const std::vector<NodeId>& members(int group) const {
    return groups_[static_cast<std::size_t>(group)];
  }

 private:
  void find_readers();
  std::span<const NodeId> readers_of(NodeId n) const;
  void place(NodeId n);
  bool in_either(NodeId n, int a, int b) const;
  bool may_merge(int a, int b, NodeId last) const;
  void merge(int from, int to);
  const Shape& shape_of(int group) const;
  void add_outside_operands(NodeId n, int a, int b, std::vector<ValueId>& operands) const;

  const Graph& graph_;
  const Overwrites overwrites_;
  std::vector<int> group_of_;
  std::vector<std::vector<NodeId>> groups_;
  std::vector<NodeId> readers_;              // of each node's results, in order of nodes
  std::vector<std::uint32_t> first_reader_;  // start index per node, and the end
  bool any_ = false;
};

}  // namespace lamina::passes
