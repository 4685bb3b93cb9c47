// Elementwise ops and fused_map as maps: a node or a chain of nodes becomes one program. Every op
// rounds to its own dtype, so that fusing changes no bits.
#pragma once

#include "runtime/kernel.h"
#include "runtime/map/program.h"

namespace lamina {

// Accepts fused_map, constant, iota and elementwise ops whose types maps compute in and that are
// instructions.
Verdict map_supports(const NodeView& node);

// REQUIRES: map_supports(node).
MapProgram map_program(const NodeView& node);

}  // namespace lamina
