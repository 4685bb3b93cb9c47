// How one use of an op may be split over devices: its rule (OpSplit, graph/op.h) with a letter for
// every dim that its operands have.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/call.h"

namespace lamina::ops {

struct OperandSplit {
  // One character per dim. A small letter or a digit (of "...", counted from the last) may be
  // split; anything else is whole.
  std::string dims;
  bool in_one_part = false;  // of an input: it is added to a sum, so one part has it
  std::string summed;        // of an output: letters that it is a sum over
};

struct SplitRule {
  std::vector<OperandSplit> inputs;   // one per input of the call; of absent ones without dims
  std::vector<OperandSplit> outputs;  // one per output
};

inline bool may_split(char dim) { return (dim >= 'a' && dim <= 'z') || (dim >= '0' && dim <= '9'); }

// Nothing when operands must be whole. REQUIRES: the rule fits the operands, which a test of every
// op sees to.
std::optional<SplitRule> split_rule(const NodeView& node);

}  // namespace lamina::ops
