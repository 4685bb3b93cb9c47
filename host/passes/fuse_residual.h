// Fuses sums into the op that makes one of their terms.
#pragma once

#include "graph/graph.h"

namespace lamina::passes {

// add followed by rms_norm of the sum becomes add_rms_norm; add of a matmul or embedding_grad that
// nobody else reads becomes its accumulator operand, so that gradients are summed in place.
Graph fuse_residual(Graph graph);

}  // namespace lamina::passes
