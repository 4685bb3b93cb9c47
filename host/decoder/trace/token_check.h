// A block sees other tokens only through ops with decode state: anything else would train one model
// and decode another (M-12 of docs/plugin_requirements.md). Private to decoder.
#pragma once

#include <vector>

#include "decoder/trace/block_graph.h"
#include "ops/token_flow.h"
#include "registry/family.h"

namespace lamina::decoder {

// Which dims of what blocks hand on count tokens, by phase.carries and phase.per_layer.
struct TokensOfCarries {
  std::vector<ops::Extents> carries, per_layer;
};

// Those of x[B, T, D].
ops::Extents tokens_of_activations(const TracePhase& phase);

// Throws PluginError, naming the block and the op with its line, where what the block gives depends
// on tokens that were mixed in another way. Losses and metrics may. Returns which dims of the
// block's results count tokens.
// REQUIRES: `phase`, of which the graph is, has no decode state and one document in a row, and is
// not for training.
std::vector<ops::Extents> check_tokens_apart(const BlockUse& use, const BlockGraph& block,
                                             const TracePhase& phase, const TokensOfCarries& given,
                                             const registry::Family& family);

}  // namespace lamina::decoder
