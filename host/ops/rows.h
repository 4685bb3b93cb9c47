// The rows of ops.def and internal.def as Ops, without their OpDefs: what the registry and the
// generator of ops/calls.h begin with.
#pragma once

#include <vector>

#include "graph/op.h"

namespace lamina::ops {

// In the order of ops.def, then of internal.def; element i has the code i.
std::vector<Op> parse_rows();

}  // namespace lamina::ops
