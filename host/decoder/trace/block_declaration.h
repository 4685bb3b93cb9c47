// The declaration of a block, which no phase, size or repetition may change: parameters and states
// are bound by the names and shapes of the first trace (M-6 of docs/plugin_requirements.md).
// Private to decoder.
#pragma once

#include <string>
#include <vector>

#include "decoder/trace/block_graph.h"
#include "registry/family.h"

namespace lamina::decoder {

struct BlockDeclaration {
  BlockUse use;
  std::vector<registry::ParamDesc> params;
  std::vector<registry::StateDesc> states;
};

BlockDeclaration declaration_of(const BlockUse& use, const BlockGraph& graph);

// Throws PluginError with the block and the first parameter or state that differs. Their order may
// differ.
void check_declaration(const BlockDeclaration& first, const BlockGraph& now,
                       const registry::Family& family);

// Throws PluginError if two traces of one block for one phase are not the same graph.
void check_repeated_trace(const BlockUse& use, const BlockGraph& first, const BlockGraph& second,
                          const registry::Family& family);

}  // namespace lamina::decoder
