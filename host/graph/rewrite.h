// Builds a graph from another one: the copy that every pass starts from.
#pragma once

#include "graph/graph.h"

namespace lamina {

// Copies values and nodes of `from` into `to`, and records the new value of each old one.
//
//   Copier copy(from, to);
//   copy.inputs();
//   for (const Node& node : from.nodes()) copy.node(node);   // or something else instead
//   copy.outputs();
class Copier {
 public:
  Copier(const Graph& from, Graph& to)
      : from_(from), to_(to), map_(from.values().size(), kNoValue) {}

  // Adds an input to the new graph for each old one.
  void inputs();
  // Appends a copy of `node`, with its tags. The old types are kept while all values that were set
  // have the types of the old ones; else infer computes them.
  void node(const Node& node);
  // Adds the old outputs, in order, to the new graph.
  void outputs();

  // Sets the replacement of an old value.
  void set(ValueId old, Tensor now);
  // Returns the replacement of an old value; null for kNoValue. REQUIRES: it has been set.
  Tensor get(ValueId old) const;
  bool has(ValueId old) const { return old != kNoValue && map_[old] != kNoValue; }
  // Returns the new operands of an old node.
  std::vector<Tensor> operands(const Node& node) const;

 private:
  ValueId mapped(ValueId old) const;

  const Graph& from_;
  Graph& to_;
  std::vector<ValueId> map_;
  bool same_types_ = true;
};

// Returns the nodes from `first` on in an executable order that is independent of their order of
// creation: depth first from `roots`, operands in their order; then nodes that no root needs.
std::vector<NodeId> order_of_use(const Graph& graph, std::span<const ValueId> roots,
                                 NodeId first = 0);

// Copies `body` (without its inputs) to the end of `to`, with `inputs` replacing its inputs;
// returns its outputs there.
std::vector<Tensor> inline_graph(const Graph& body, Graph& to, std::span<const Tensor> inputs);

// Returns the graph without nodes that no output needs; its inputs stay.
Graph without_dead_nodes(const Graph& graph);

}  // namespace lamina
