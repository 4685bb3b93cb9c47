// Converts the inputs of a node to the arguments of attention.h, for all ops of attention.
#pragma once

#include <cmath>

#include "backends/cpu/attention/attention.h"
#include "backends/cpu/kernel_support.h"
#include "core/error.h"
#include "formats/row_formats.h"

namespace lamina::cpu {

inline CachedRows cached_rows(const Type& keys) {
  if (!keys.storage) return CachedRows::plain;
  const auto numbers = formats::row_numbers(*keys.storage);
  LAMINA_ASSERT(numbers);
  return *numbers == formats::RowNumbers::int8 ? CachedRows::int8 : CachedRows::e4m3;
}

// Returns the sizes and attributes of attention and attention_grad, which have q, k and v at the
// same places.
inline AttentionSpec attention_spec(const NodeView& n) {
  namespace in = operand::attention;
  namespace grad = operand::attention_grad;
  static_assert(int{in::kQ} == grad::kQ && int{in::kK} == grad::kK && int{in::kV} == grad::kV);
  const Type &q = n.type(in::kQ), &k = n.type(in::kK), &v = n.type(in::kV);
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
          .chunk = n.i("chunk"),
          .cached = cached_rows(k)};
}

// Makes the input of a contiguous [B, tokens, heads, dim].
inline AttentionInput attention_input(const void* data, const Type& type) {
  const std::int64_t row = type.storage ? type.storage->num_bytes : type.dim(3);
  return {data, contiguous_strides(type.dim(1), type.dim(2), row)};
}
inline AttentionOutput attention_output(void* data, const Type& type) {
  return {data, contiguous_strides(type.dim(1), type.dim(2), type.dim(3))};
}

// The places of an op's optional inputs.
struct AttentionPositions {
  std::size_t positions, key_positions, segments, key_segments, blocks, mask;
};

inline AttentionMasks attention_masks(const KernelArgs& args, const AttentionPositions& where,
                                      bool by_head) {
  const auto ids = [&](std::size_t i) { return static_cast<const std::int32_t*>(args.inputs[i]); };
  AttentionMasks masks;
  masks.q_positions = ids(where.positions);
  masks.k_positions = ids(where.key_positions);
  masks.q_segments = ids(where.segments);
  masks.k_segments = ids(where.key_segments);
  masks.q_blocks = masks.k_blocks = ids(where.blocks);
  masks.keep = static_cast<const std::uint8_t*>(args.inputs[where.mask]);
  masks.keep_by_head = by_head;
  return masks;
}

// The places of the optional inputs that bias the logits.
struct BiasInputs {
  int slopes, table;
  AttentionBias of(const NodeView& n) const {
    AttentionBias bias;
    if (n.has(slopes)) bias.slopes_dtype = n.type(slopes).dtype;
    if (n.has(table)) bias.table_dtype = n.type(table).dtype;
    return bias;
  }
  void bind(const KernelArgs& args, AttentionBias& bias) const {
    bias.slopes = args.inputs[static_cast<std::size_t>(slopes)];
    bias.table = args.inputs[static_cast<std::size_t>(table)];
  }
  void add_to(const NodeView& n, AttentionSpec& spec) const {
    spec.slopes = n.has(slopes);
    spec.bias_distances = n.has(table) ? n.type(table).dim(1) : 0;
  }
};

// Properties of the node alone.
inline bool mask_by_head(const NodeView& n, int mask) {
  return n.has(mask) && n.type(mask).ndim() == 4;
}
inline DType sinks_dtype(const NodeView& n, int sinks) {
  return n.has(sinks) ? n.type(sinks).dtype : DType::f32;
}

}  // namespace lamina::cpu
