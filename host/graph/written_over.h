// Operands whose memory an op always writes over.
#pragma once

#include <cstddef>
#include <vector>

#include "graph/graph.h"

namespace lamina {

// Returns the operand that result `i` of the node is always written over, or kNoValue.
ValueId always_written_over(const Node& node, std::size_t i);

// The nodes that always write over the memory of values.
class Overwrites {
 public:
  explicit Overwrites(const Graph& graph);

  // Returns the node that writes over the value or a value in the same memory, or kNoNode, which is
  // larger than every node.
  NodeId of(ValueId v) const { return v == kNoValue ? kNoNode : by_[v]; }
  // Returns whether an operand of the node is written over before node `place`: then the node may
  // not be moved there.
  bool forbid(const Node& node, NodeId place) const;

 private:
  std::vector<NodeId> by_;  // one per value
};

}  // namespace lamina
