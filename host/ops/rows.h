// The rows of ops.def and internal.def as Ops, without their OpDefs, for the registry and the
// generator of ops/calls.h.
#pragma once

#include <string_view>
#include <vector>

#include "graph/op.h"

namespace lamina::ops {

// Parses names of operands, and attributes, in the notation of ops.def. REQUIRES: valid text.
std::vector<OpInput> parse_operands(std::string_view text);
std::vector<OpAttr> parse_attributes(std::string_view text);

// In the order of ops.def, then of internal.def.
std::vector<Op> parse_rows();

}  // namespace lamina::ops
