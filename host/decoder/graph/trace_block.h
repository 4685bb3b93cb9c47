// Builds the graph of one distinct block for one phase: records it, applies the options of the
// host, then converts it to the form of the phase. Private to decoder.
#pragma once

#include "decoder/trace/block_graph.h"
#include "decoder/trace/host_block.h"
#include "registry/family.h"

namespace lamina::decoder {

// `donor`: the keys and values of layer use.kv_donor, else null. Throws PluginError for a block
// that breaks the contract, UserError (exit 2) if the block cannot be combined with an option.
BlockGraph trace_block(const registry::Family& family, const registry::ModelConfig& config,
                       const BlockUse& use, const BlockGraph::Kv* donor, const TracePhase& phase);

BlockGraph trace_host_block(const BlockUse& use, const HostBlock& build, const TracePhase& phase);

}  // namespace lamina::decoder
