// What the ops of attention share: the inputs of a node as the arguments of attention.h.
#pragma once

#include <cmath>

#include "backends/cpu/attention/attention.h"
#include "backends/cpu/kernel_support.h"

namespace lamina::cpu {

// Input i of a run; null when absent.
inline const void* optional_input(const KernelArgs& args, int i) {
  return static_cast<std::size_t>(i) >= args.inputs.size()
             ? nullptr
             : args.inputs[static_cast<std::size_t>(i)];
}

// The sizes and attributes of attention and attention_grad: inputs 0, 1 and 2 are q, k and v.
inline AttentionSpec attention_spec(const NodeView& n) {
  const Type &q = n.type(0), &k = n.type(1), &v = n.type(2);
  return {.dtype = q.dtype,
          .batch = q.dim(0),
          .q_tokens = q.dim(1),
          .kv_tokens = k.dim(1),
          .heads = q.dim(2),
          .kv_heads = k.dim(2),
          .qk_dim = q.dim(3),
          .v_dim = v.dim(3),
          .scale = n.f("scale") != 0 ? n.f("scale") : 1 / std::sqrt(static_cast<double>(q.dim(3))),
          .soft_cap = n.f("soft_cap"),
          .causal = n.i("causal") != 0,
          .window = n.i("window"),
          .chunk = n.i("chunk")};
}

// A contiguous [B, tokens, heads, dim].
inline AttentionInput attention_input(const void* data, const Type& type) {
  return {data, contiguous_strides(type.dim(1), type.dim(2), type.dim(3))};
}
inline AttentionOutput attention_output(void* data, const Type& type) {
  return {data, contiguous_strides(type.dim(1), type.dim(2), type.dim(3))};
}

// Where the optional inputs of an op are.
struct AttentionPositions {
  int positions, key_positions, segments, key_segments, sinks, blocks, mask;
};

inline AttentionMasks attention_masks(const KernelArgs& args, const AttentionPositions& where,
                                      bool by_head) {
  const auto ids = [&](int i) { return static_cast<const std::int32_t*>(optional_input(args, i)); };
  AttentionMasks masks;
  masks.q_positions = ids(where.positions);
  masks.k_positions = ids(where.key_positions);
  masks.q_segments = ids(where.segments);
  masks.k_segments = ids(where.key_segments);
  masks.q_blocks = masks.k_blocks = ids(where.blocks);
  masks.keep = static_cast<const std::uint8_t*>(optional_input(args, where.mask));
  masks.keep_by_head = by_head;
  return masks;
}

// What only depends on the node.
inline bool mask_by_head(const NodeView& n, int mask) {
  return n.has(mask) && n.type(mask).ndim() == 4;
}
inline DType sinks_dtype(const NodeView& n, int sinks) {
  return n.has(sinks) ? n.type(sinks).dtype : DType::f32;
}

}  // namespace lamina::cpu
