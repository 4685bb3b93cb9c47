// How one use of an op may be split over devices: its rule (OpSplit, graph/op.h) with a letter for
// every dim of its operands.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/call.h"

namespace lamina::ops {

struct OperandSplit {
  // One character per dim. A dim with a small letter or a digit (for "...", counted from the last)
  // may be split; any other must be whole.
  std::string dims;
  bool in_one_part = false;  // for an input: it is added to a sum, so only one part has it
  std::string summed;        // for an output: letters that it is a sum over
};

struct SplitRule {
  std::vector<OperandSplit> inputs;   // one per input of the call; absent ones have no dims
  std::vector<OperandSplit> outputs;  // one per output
};

inline bool may_split(char dim) { return (dim >= 'a' && dim <= 'z') || (dim >= '0' && dim <= '9'); }

// Returns nothing if operands must be whole. REQUIRES: the rule matches the operands, which a test
// checks for every op.
std::optional<SplitRule> split_rule(const NodeView& node);

}  // namespace lamina::ops
