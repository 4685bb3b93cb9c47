// Engram's equations: what a layer's residual streams get from the n-grams before each token.
#pragma once

#include "decoder/engram/engram.h"
#include "decoder/trace/host_block.h"

namespace lamina::decoder {

// What is added to the streams x[B, T, K, D] before it is added: values of the tables times their
// gates, and what a short convolution over time makes of these; and the rows that were looked up,
// [B, T, rows of a token].
struct EngramValues {
  Tensor gated, convolved, rows;
};

// Of streams that are normed, [B, T, K, D].
EngramValues engram_values(HostBuild& build, const Engram& engram, const EngramLayer& layer,
                           Tensor x);

// The block: carry 0, [B, T, D] or [B, T, K, D], gets its part, others stay as they are. Throws
// UserError (exit 2) for a family that keeps something else there.
HostBlock engram_block(const Engram& engram, const EngramLayer& layer, std::int64_t hidden_size);

}  // namespace lamina::decoder
