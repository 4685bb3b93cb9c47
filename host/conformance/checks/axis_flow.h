// Follows logical axes (plugin_api/include/lamina/axes.def) through a graph: the axes declared for
// parameters must be true for the dims that ops combine with them. A product over a dim that is
// "embed" in the matrix and "mlp" in the other operand would be split differently on its two sides.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "ops/split.h"

namespace lamina::conformance {

class AxisFlow {
 public:
  // One per dim, empty if unknown: activations and parameters of the same axis have the same name
  // ("act_embed" is "embed"), and so have query heads and key/value heads.
  using Names = std::vector<std::string_view>;

  explicit AxisFlow(const Graph& graph);
  // The last dims of the value belong to a parameter; layers may be stacked before them.
  void set_parameter(ValueId value, std::span<const AxisId> axes);
  // Follows every node. Throws Failure at the first that combines two axes.
  void run();
  const Names& at(ValueId value) const { return values_[value]; }

 private:
  void set(ValueId value, Names names) { values_[value] = std::move(names); }
  void follow(const Node& node);
  void follow_rule(const Node& node, const ops::SplitRule& rule);
  void follow_reshape(const Node& node);
  void follow_scan(const Node& node);

  const Graph& graph_;
  std::vector<Names> values_;
};

}  // namespace lamina::conformance
