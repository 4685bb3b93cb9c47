// Engram's equations: the values that the n-grams before each token add to a layer's residual
// streams.
#pragma once

#include "decoder/engram/engram.h"
#include "decoder/trace/host_block.h"

namespace lamina::decoder {

// Values added to the streams x[B, T, K, D]: values of the tables times their gates, and a short
// convolution of these over time; and the rows that were looked up, [B, T, rows per token].
struct EngramValues {
  Tensor gated, convolved, rows;
};

// Computes the values. `x` are the normed streams, [B, T, K, D].
EngramValues engram_values(HostBuild& build, const Engram& engram, const EngramLayer& layer,
                           Tensor x);

// Returns the block, which adds to carry 0, [B, T, D] or [B, T, K, D]; other carries are unchanged.
// Throws UserError (exit 2) if carry 0 of the family has another shape.
HostBlock engram_block(const Engram& engram, const EngramLayer& layer, std::int64_t hidden_size);

}  // namespace lamina::decoder
