// The rows of ops.def and internal.def as Ops, without their OpDefs: what the registry and the
// generator of ops/calls.h begin with.
#pragma once

#include <string_view>
#include <vector>

#include "graph/op.h"

namespace lamina::ops {

// Names of operands, and attributes, in the notation of ops.def. REQUIRES: they keep to it.
std::vector<OpInput> parse_operands(std::string_view text);
std::vector<OpAttr> parse_attributes(std::string_view text);

// In the order of ops.def, then of internal.def; element i has the code i.
std::vector<Op> parse_rows();

}  // namespace lamina::ops
