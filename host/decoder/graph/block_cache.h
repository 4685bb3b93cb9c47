// The distinct blocks of a model for one phase, each traced once. Private to decoder.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "decoder/graph/model_parts.h"
#include "decoder/trace/block_declaration.h"

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
  // Throws PluginError where one that was traced mixes tokens as it may not. REQUIRES: the phase
  // has no decode state, and several rows and tokens.
  void check_tokens_apart() const;

 private:
  const BlockGraph& get(const BlockUse& use);

  const ModelParts& parts_;
  TracePhase phase_;
  std::vector<std::pair<BlockUse, std::unique_ptr<BlockGraph>>> traced_;
};

}  // namespace lamina::decoder
