// Operands whose memory an op always writes over.
#pragma once

#include <cstddef>

#include "graph/graph.h"

namespace lamina {

// Returns the operand that result `i` of the node is always written over, or kNoValue.
ValueId always_written_over(const Node& node, std::size_t i);

}  // namespace lamina
