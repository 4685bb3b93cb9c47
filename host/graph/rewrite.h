// Building a graph from another: the copy that every pass starts from.
#pragma once

#include "graph/graph.h"

namespace lamina {

// Copies values and nodes of `from` into `to`, remembering what became of each value.
//
//   Copier copy(from, to);
//   copy.inputs();
//   for (const Node& node : from.nodes()) copy.node(node);   // or something else instead
//   copy.outputs();
class Copier {
 public:
  Copier(const Graph& from, Graph& to)
      : from_(from), to_(to), map_(from.values().size(), kNoValue) {}

  // Adds an input to the new graph for each of the old.
  void inputs();
  // Appends a copy of `node`, with its tags and types. While all that was set has the type of what
  // it stands for, these are the old ones; else infer says.
  void node(const Node& node);
  // Adds the old outputs, in order, to the new graph.
  void outputs();

  // Says what stands for an old value.
  void set(ValueId old, Tensor now);
  // What stands for an old value; null for kNoValue. REQUIRES: it has been set.
  Tensor get(ValueId old) const;
  bool has(ValueId old) const { return old != kNoValue && map_[old] != kNoValue; }
  // The new operands of an old node.
  std::vector<Tensor> operands(const Node& node) const;

 private:
  ValueId mapped(ValueId old) const;

  const Graph& from_;
  Graph& to_;
  std::vector<ValueId> map_;
  bool same_types_ = true;
};

// Nodes from `first` on, in an order in which they can run and which does not tell in what order
// they were made: depth first from `roots`, operands in their order; then what no root needs.
std::vector<NodeId> order_of_use(const Graph& graph, std::span<const ValueId> roots,
                                 NodeId first = 0);

// Copies `body` (inputs excluded) to the end of `to`, with `inputs` standing for its inputs;
// returns what stands for its outputs.
std::vector<Tensor> inline_graph(const Graph& body, Graph& to, std::span<const Tensor> inputs);

// The graph without the nodes that no output needs; its inputs stay.
Graph without_dead_nodes(const Graph& graph);

}  // namespace lamina
