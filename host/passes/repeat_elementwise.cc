#include "passes/repeat_elementwise.h"

#include <algorithm>
#include <map>
#include <set>

#include "graph/rewrite.h"
#include "graph/written_over.h"

namespace lamina::passes {
namespace {

constexpr std::size_t kMostRepeated = 8;  // nodes of one group

class Repetition {
 public:
  Repetition(const Graph& graph, const ElementwiseGroups& groups)
      : graph_(graph), groups_(groups), overwrites_(graph), stored_(graph.values().size()) {
    for (const GraphOutput& output : graph.outputs()) stored_[output.value] = true;
    for (NodeId n = 0; n < graph.nodes().size(); ++n)
      for (ValueId v : graph.node(n).inputs)
        if (v != kNoValue && groups_.group_of(n) < 0) stored_[v] = true;
  }

  std::optional<Graph> run() {
    for (NodeId n = 0; n < graph_.nodes().size(); ++n)
      if (const int group = groups_.group_of(n); group >= 0 && groups_.members(group).front() == n)
        find(group);
    if (repeated_.empty()) return std::nullopt;
    Graph out;
    Copier copy(graph_, out);
    copy.inputs();
    std::map<int, std::map<ValueId, Tensor>> inside;  // repeated values of each group
    for (NodeId n = 0; n < graph_.nodes().size(); ++n) {
      const int group = groups_.group_of(n);
      const auto found = repeated_.find(group);
      if (found == repeated_.end()) {
        copy.node(graph_.node(n));
        continue;
      }
      std::map<ValueId, Tensor>& values = inside[group];
      if (groups_.members(group).front() == n)
        for (NodeId again : found->second)
          values[graph_.node(again).outputs[0]] = emit(again, values, copy, out);
      copy.set(graph_.node(n).outputs[0], emit(n, values, copy, out));
    }
    copy.outputs();
    return without_dead_nodes(out);
  }

 private:
  const Shape& shape_of(NodeId n) const { return graph_.type(graph_.node(n).outputs[0]).shape; }

  // Returns the node of another group that makes `v` for this group alone to read, or kNoNode.
  NodeId made_elsewhere(ValueId v, int group) const {
    const NodeId made_by = v == kNoValue ? kNoNode : graph_.value(v).node;
    if (made_by == kNoNode || stored_[v] || groups_.group_of(made_by) < 0) return kNoNode;
    if (groups_.group_of(made_by) == group || graph_.node(made_by).outputs.size() != 1)
      return kNoNode;
    return shape_of(made_by) == shape_of(groups_.members(group).front()) ? made_by : kNoNode;
  }

  // Finds the nodes to repeat for a group.
  void find(int group) {
    std::set<ValueId> wanted, operands;  // values that are read instead, and other operands
    std::set<NodeId> again;
    for (NodeId n : groups_.members(group)) {
      if (graph_.node(n).outputs.size() != 1) return;
      for (ValueId v : graph_.node(n).inputs) {
        if (made_elsewhere(v, group) != kNoNode)
          wanted.insert(v);
        else if (v != kNoValue && !made_by_group(v, group))
          operands.insert(v);
      }
    }
    std::set<ValueId> sources;
    for (ValueId v : wanted) collect(graph_.value(v).node, again, sources);
    if (again.empty() || again.size() > kMostRepeated) return;
    std::int64_t removed = 0, added = 0;
    for (ValueId v : wanted) removed += graph_.type(v).bytes();
    for (ValueId v : sources) {
      const NodeId made_by = graph_.value(v).node;
      if (made_by != kNoNode && made_by >= groups_.members(group).front()) return;
      if (overwrites_.of(v) < groups_.members(group).back()) return;
      if (operands.insert(v).second) added += graph_.type(v).bytes();
    }
    if (added >= removed || operands.size() > kMaxGroupOperands) return;
    if (groups_.members(group).size() + again.size() > kMaxGroupNodes) return;
    repeated_[group].assign(again.begin(), again.end());
  }

  bool made_by_group(ValueId v, int group) const {
    const NodeId made_by = graph_.value(v).node;
    return made_by != kNoNode && groups_.group_of(made_by) == group;
  }

  // Adds node `n` and the nodes of its group that it needs; `sources` are in memory.
  void collect(NodeId n, std::set<NodeId>& again, std::set<ValueId>& sources) const {
    if (!again.insert(n).second) return;
    for (ValueId v : graph_.node(n).inputs) {
      if (v == kNoValue) continue;
      const bool repeats = made_by_group(v, groups_.group_of(n)) && !stored_[v] &&
                           graph_.node(graph_.value(v).node).outputs.size() == 1;
      if (repeats)
        collect(graph_.value(v).node, again, sources);
      else
        sources.insert(v);
    }
  }

  Tensor emit(NodeId n, const std::map<ValueId, Tensor>& values, const Copier& copy,
              Graph& out) const {
    const Node& node = graph_.node(n);
    std::vector<Tensor> operands;
    for (ValueId v : node.inputs) {
      const auto found = values.find(v);
      operands.push_back(found != values.end() ? found->second : copy.get(v));
    }
    out.set_origin(node.origin);
    return out.add_node_like(node, operands).front();
  }

  const Graph& graph_;
  const ElementwiseGroups& groups_;
  const Overwrites overwrites_;
  std::vector<bool> stored_;  // values that are in memory for other readers than groups
  std::map<int, std::vector<NodeId>> repeated_;  // by group, in order
};

}  // namespace

std::optional<Graph> repeat_elementwise(const Graph& graph, const ElementwiseGroups& groups) {
  return Repetition(graph, groups).run();
}

}  // namespace lamina::passes
