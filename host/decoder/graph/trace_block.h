// The graph of one distinct block for one phase: recorded, then changed by the options of the host,
// then brought into the form of the phase. Private to decoder.
#pragma once

#include "decoder/trace/block_graph.h"
#include "decoder/trace/host_block.h"
#include "registry/family.h"

namespace lamina::decoder {

// `donor`: what the layer use.kv_donor gives, else null. Throws PluginError for a block that breaks
// the contract, UserError (exit 2) where an option does not go with the block.
BlockGraph trace_block(const registry::Family& family, const registry::ModelConfig& config,
                       const BlockUse& use, const BlockGraph::Kv* donor, const TracePhase& phase);

BlockGraph trace_host_block(const BlockUse& use, const HostBlock& build, const TracePhase& phase);

}  // namespace lamina::decoder
