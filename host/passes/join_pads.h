// Joins parts that were padded to be added.
#pragma once

#include "graph/graph.h"

namespace lamina::passes {

// A sum of pads of parts that follow each other in one dim becomes the concatenation of the parts:
// the gradient of a value that was split, in one pass over memory. A negative zero stays negative.
Graph join_pads(Graph graph);

}  // namespace lamina::passes
