// What attention and attention_grad share: the op's inputs as the kernels want them.
#pragma once

#include "backends/cpu/attention/attention.h"
#include "backends/cpu/kernel_support.h"

namespace lamina::cpu {

// Where the optional inputs of an op are; -1 for those it does not have.
struct AttentionPositions {
  int positions, key_positions, segments, key_segments, sinks, blocks, mask;
};

// The sizes and attributes of either op: inputs 0, 1 and 2 are q, k and v.
AttentionSpec attention_spec(const NodeView& n);

// A contiguous [B, tokens, heads, dim].
AttentionInput attention_input(const void* data, const Type& type);
AttentionOutput attention_output(void* data, const Type& type);

// Turns the op's masks and sinks into the kernels': the op's padding is segment 0, theirs a
// negative one; the op's blocks end with the segment, theirs do not; their sinks are f32 (f64 for
// f64).
class AttentionInputs {
 public:
  AttentionInputs(const NodeView& n, const AttentionPositions& where);

  std::size_t workspace_bytes() const { return bytes_; }

  struct Ready {
    AttentionMasks masks;
    const void* sinks;
  };
  Ready prepare(const KernelArgs& args, std::byte* workspace) const;

 private:
  AttentionPositions where_;
  std::int64_t batch_, queries_, keys_, heads_;
  bool has_segments_, has_blocks_, masks_heads_;
  DType dtype_;
  DType sinks_dtype_ = DType::f32;
  bool converts_sinks_ = false;
  std::size_t segments_at_ = 0, key_segments_at_ = 0, blocks_at_ = 0, sinks_at_ = 0, bytes_ = 0;
};

// Input i of a run; null when absent.
inline const void* optional_input(const KernelArgs& args, int i) {
  return i < 0 || static_cast<std::size_t>(i) >= args.inputs.size()
             ? nullptr
             : args.inputs[static_cast<std::size_t>(i)];
}

}  // namespace lamina::cpu
