// A block sees other tokens only through ops with decode state: anything else would train one model
// and decode another (M-12 of docs/plugin_requirements.md). Private to decoder.
#pragma once

#include "decoder/trace/block_graph.h"
#include "registry/family.h"

namespace lamina::decoder {

// Throws PluginError, naming the block and the op with its line, where what the block gives depends
// on tokens that were mixed in another way. Losses and metrics may.
// REQUIRES: `phase`, of which the graph is, has no decode state and several rows and tokens.
void check_tokens_apart(const BlockUse& use, const BlockGraph& block, const TracePhase& phase,
                        const registry::Family& family);

}  // namespace lamina::decoder
