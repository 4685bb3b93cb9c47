// The host's options that change a block, one file per option: each finds ops of a recorded block,
// changes them, and refuses a block without such ops. Private to decoder.
#pragma once

#include <span>
#include <string_view>

#include "decoder/trace/recording.h"

namespace lamina::decoder {

struct Rewrite {
  std::string_view name;
  // True if the options of the phase request it.
  bool (*wanted)(const TracePhase& phase);
  // Changes the recording. UserError (exit 2) if the block does not have the needed ops.
  void (*apply)(Recording& recording, const BlockContext& context) = nullptr;
  // Likewise after state/forms.h: for rewrites that depend on an op's inputs from the host.
  void (*apply_to_forms)(Recording& recording, const BlockContext& context) = nullptr;
};

// Returns the rewrites in the order in which they are applied: each sees the results of the earlier
// ones.
std::span<const Rewrite* const> rewrites();

// Returns the parts of the block that options can change.
BlockParts block_parts(const Recording& recording);

// One file each.
extern const Rewrite kAttentionInputs, kFeedForward, kDropout, kAttentionKind, kAttentionCap,
    kRotaryPositions, kBlockAttention, kRandomRouting, kAdapter, kAttentionDropout, kQkClip;

// Functions that several rewrites use.

// True if `weight` is the last matrix of a feed-forward.
bool is_last_matrix(const Recording& recording, ValueId weight);
// True if the node chooses experts by scores of a router.
bool chooses_experts(const Recording& recording, NodeId id);
// Returns an attribute of a node.
const AttrValue& attr(const Node& node, std::string_view name);

}  // namespace lamina::decoder
