// Fuses a sum into the op that computes one of its terms.
#pragma once

#include "graph/graph.h"

namespace lamina::passes {

// add followed by rms_norm of the sum becomes add_rms_norm; add of a matmul or embedding_grad whose
// result has no other reader becomes its accumulator operand, so that gradients are summed in
// place.
Graph fuse_residual(Graph graph);

}  // namespace lamina::passes
