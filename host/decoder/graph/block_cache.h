// The distinct blocks of a model for one phase, each traced once. Refuses blocks that mix tokens
// without decode state (PluginError), for any size of the phase. Private to decoder.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "decoder/graph/model_parts.h"
#include "decoder/trace/block_declaration.h"
#include "decoder/trace/token_check.h"

namespace lamina::decoder {

class BlockCache {
 public:
  // Traces the entry, which determines the types of carries.
  BlockCache(const ModelParts& parts, TracePhase phase);

  const TracePhase& phase() const { return phase_; }

  const BlockGraph& layer(const StackSegment& segment, std::size_t position);
  // Returns Engram's block before that layer. REQUIRES: there is one.
  const BlockGraph& engram(std::int64_t layer);
  // REQUIRES: the model has such a block.
  const BlockGraph& entry();
  const BlockGraph& exit();
  const BlockGraph& mtp();

  // Returns the declarations of the plugin's blocks traced so far.
  std::vector<BlockDeclaration> declarations() const;
  // Traces these blocks, too. Throws PluginError if a block's declaration has changed.
  void trace_all(const std::vector<BlockDeclaration>& blocks);
  // Traces the blocks of `first`, of the same phase, again. Throws PluginError if a declaration or
  // a graph differs.
  void check_repeated(const BlockCache& first);

 private:
  const BlockGraph& get(const BlockUse& use);
  void check_tokens_apart(const BlockUse& use, const BlockGraph& graph);

  const ModelParts& parts_;
  TracePhase phase_;
  TokensOfCarries tokens_;
  // The same blocks for a pass over one document per row without decode state, if this phase is
  // different. In such a pass no op of the host itself mixes tokens.
  std::unique_ptr<BlockCache> plain_;
  std::vector<std::pair<BlockUse, std::unique_ptr<BlockGraph>>> traced_;
};

}  // namespace lamina::decoder
