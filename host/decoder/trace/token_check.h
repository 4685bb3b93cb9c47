// Checks that a block sees other tokens only through ops with decode state, because otherwise
// training and decoding would compute different models (M-12 of docs/plugin_requirements.md).
// Private to decoder.
#pragma once

#include <vector>

#include "decoder/trace/block_graph.h"
#include "ops/token_flow.h"
#include "registry/family.h"

namespace lamina::decoder {

// The dims of the carries and per-layer values that count tokens, for phase.carries and
// phase.per_layer.
struct TokensOfCarries {
  std::vector<ops::Extents> carries, per_layer;
};

// Returns the token dims of x[B, T, D].
ops::Extents tokens_of_activations(const TracePhase& phase);

// Throws PluginError, with the block and the op with its line, if results of the block depend on
// tokens that were mixed in another way. Losses and metrics may. Returns the dims of the block's
// results that count tokens. REQUIRES: the graph was built for `phase`, which has no decode state,
// one document per row, and is not for training.
std::vector<ops::Extents> check_tokens_apart(const BlockUse& use, const BlockGraph& block,
                                             const TracePhase& phase, const TokensOfCarries& given,
                                             const registry::Family& family);

}  // namespace lamina::decoder
