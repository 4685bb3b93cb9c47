// The host's options that change a block, one file each: they match ops of a recorded block, change
// them, and refuse a block that does not have what the option is about. Private to decoder.
#pragma once

#include <span>
#include <string_view>

#include "decoder/trace/recording.h"

namespace lamina::decoder {

struct Rewrite {
  std::string_view name;
  // Whether a phase's options ask for it.
  bool (*wanted)(const TracePhase& phase);
  // Changes the recording. UserError (exit 2) where the block is not made of what the option needs.
  void (*apply)(Recording& recording, const BlockContext& context) = nullptr;
  // Likewise after state/forms.h: for ops whose inputs from the host matter.
  void (*apply_to_forms)(Recording& recording, const BlockContext& context) = nullptr;
};

// In the order in which they are applied: each sees what those before it made.
std::span<const Rewrite* const> rewrites();

// What the block has that options are about.
BlockParts block_parts(const Recording& recording);

// A file each.
extern const Rewrite kAttentionInputs, kFeedForward, kDropout, kAttentionKind, kAttentionCap,
    kRotaryPositions, kBlockAttention, kRandomRouting, kAdapter, kAttentionDropout, kQkClip;

// What files share.

// Whether `weight` is the last matrix of a feed-forward.
bool is_last_matrix(const Recording& recording, ValueId weight);
// Whether the node chooses experts by what a router computes.
bool chooses_experts(const Recording& recording, NodeId id);
// An attribute of a node.
const AttrValue& attr(const Node& node, std::string_view name);

}  // namespace lamina::decoder
