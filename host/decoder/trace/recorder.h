// Records the ops that a build describes, in order. Options of the host and decode state come later
// (decoder/rewrite, decoder/state). Private to decoder.
#pragma once

#include "decoder/trace/host_block.h"
#include "decoder/trace/recording.h"
#include "registry/trace.h"

namespace lamina::decoder {

// Throws PluginError for a block that breaks the contract, with the line of the plugin. `donor`:
// the keys and values of layer use.kv_donor, else null.
Recording record_block(const registry::Family& family, const registry::ModelConfig& config,
                       const BlockContext& context, const BlockGraph::Kv* donor);

Recording record_host_block(const BlockContext& context, const HostBlock& build);

}  // namespace lamina::decoder
