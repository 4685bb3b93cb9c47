// The distinct blocks of a model for one phase, each traced once. A block that mixes tokens as it
// may not is refused (PluginError), in a phase of any size. Private to decoder.
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
  // Traces the entry, from which the types of carries follow.
  BlockCache(const ModelParts& parts, TracePhase phase);

  const TracePhase& phase() const { return phase_; }

  const BlockGraph& layer(const StackSegment& segment, std::size_t position);
  // What stands before that layer. REQUIRES: something does.
  const BlockGraph& engram(std::int64_t layer);
  // REQUIRES: the model has such a block.
  const BlockGraph& entry();
  const BlockGraph& exit();
  const BlockGraph& mtp();

  // What the plugin's blocks that were traced so far declare.
  std::vector<BlockDeclaration> declarations() const;
  // Traces these blocks, too. Throws PluginError where one declares something else now.
  void trace_all(const std::vector<BlockDeclaration>& blocks);
  // Likewise those of `first`, of the same phase; also where a graph is another.
  void check_repeated(const BlockCache& first);

 private:
  const BlockGraph& get(const BlockUse& use);
  void check_tokens_apart(const BlockUse& use, const BlockGraph& graph);

  const ModelParts& parts_;
  TracePhase phase_;
  TokensOfCarries tokens_;
  // The same blocks for a pass over one document in each row without decode state, where this phase
  // is another: there no op of the host's own looks at several tokens.
  std::unique_ptr<BlockCache> plain_;
  std::vector<std::pair<BlockUse, std::unique_ptr<BlockGraph>>> traced_;
};

}  // namespace lamina::decoder
