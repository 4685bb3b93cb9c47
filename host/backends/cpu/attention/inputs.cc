#include "backends/cpu/attention/inputs.h"

#include <cmath>

namespace lamina::cpu {
namespace {

bool has(const NodeView& n, int i) { return i >= 0 && n.has(i); }

// Ids of blocks that differ where the segments differ; 0 where there is no block.
void number_blocks(const std::int32_t* blocks, const std::int32_t* segments, std::int32_t* out,
                   std::int64_t tokens) {
  for (std::int64_t t = 0; t < tokens; ++t) {
    out[t] = 0;
    if (blocks[t] == 0 || (segments && segments[t] == 0)) continue;
    auto same = [&](std::int64_t u) {
      return blocks[u] == blocks[t] && (!segments || segments[u] == segments[t]);
    };
    // Blocks are runs of tokens: the one before nearly always decides.
    if (t > 0 && same(t - 1)) {
      out[t] = out[t - 1];
      continue;
    }
    std::int64_t first = 0;
    while (!same(first)) ++first;
    out[t] = static_cast<std::int32_t>(first + 1);
  }
}

void mark_padding(const std::int32_t* segments, std::int32_t* out, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = segments[i] == 0 ? -1 : segments[i];
}

void convert_sinks(DType from, const void* sinks, DType to, std::byte* out, std::int64_t count) {
  with_floating(from, [&](auto x) {
    with_floating(to, [&](auto y) {
      using In = decltype(x);
      using Out = decltype(y);
      for (std::int64_t i = 0; i < count; ++i)
        reinterpret_cast<Out*>(out)[i] = Number<Out>::store(static_cast<typename Number<Out>::Wide>(
            Number<In>::load(static_cast<const In*>(sinks)[i])));
    });
  });
}

}  // namespace

AttentionSpec attention_spec(const NodeView& n) {
  const Type& q = n.type(0);
  const Type& k = n.type(1);
  const Type& v = n.type(2);
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

AttentionInput attention_input(const void* data, const Type& type) {
  return {data, contiguous_strides(type.dim(1), type.dim(2), type.dim(3))};
}

AttentionOutput attention_output(void* data, const Type& type) {
  return {data, contiguous_strides(type.dim(1), type.dim(2), type.dim(3))};
}

AttentionInputs::AttentionInputs(const NodeView& n, const AttentionPositions& where)
    : where_(where),
      batch_(n.type(0).dim(0)),
      queries_(n.type(0).dim(1)),
      keys_(n.type(1).dim(1)),
      heads_(n.type(0).dim(2)),
      has_segments_(has(n, where.segments)),
      has_blocks_(has(n, where.blocks)),
      masks_heads_(has(n, where.mask) && n.type(where.mask).ndim() == 4),
      dtype_(sum_dtype(n.type(0).dtype)) {
  auto reserve = [&](std::int64_t count, int size) {
    const std::size_t at = bytes_;
    bytes_ += aligned(static_cast<std::size_t>(count * size));
    return at;
  };
  if (has_segments_) {
    segments_at_ = reserve(batch_ * queries_, 4);
    key_segments_at_ = reserve(batch_ * keys_, 4);
  }
  if (has_blocks_) blocks_at_ = reserve(batch_ * queries_, 4);
  if (has(n, where.sinks)) {
    sinks_dtype_ = n.type(where.sinks).dtype;
    converts_sinks_ = sinks_dtype_ != dtype_;
    if (converts_sinks_) sinks_at_ = reserve(heads_, size_bytes(dtype_));
  }
}

AttentionInputs::Ready AttentionInputs::prepare(const KernelArgs& args,
                                                std::byte* workspace) const {
  auto ids = [&](int i) { return static_cast<const std::int32_t*>(optional_input(args, i)); };
  auto room = [&](std::size_t at) { return reinterpret_cast<std::int32_t*>(workspace + at); };
  Ready out{};
  out.masks.q_positions = ids(where_.positions);
  out.masks.k_positions = ids(where_.key_positions);
  const std::int32_t* segments = ids(where_.segments);
  if (has_segments_) {
    mark_padding(segments, room(segments_at_), batch_ * queries_);
    mark_padding(ids(where_.key_segments), room(key_segments_at_), batch_ * keys_);
    out.masks.q_segments = room(segments_at_);
    out.masks.k_segments = room(key_segments_at_);
  }
  if (has_blocks_) {
    for (std::int64_t b = 0; b < batch_; ++b)
      number_blocks(ids(where_.blocks) + b * queries_, segments ? segments + b * queries_ : nullptr,
                    room(blocks_at_) + b * queries_, queries_);
    out.masks.q_blocks = out.masks.k_blocks = room(blocks_at_);
  }
  out.masks.keep = static_cast<const std::uint8_t*>(optional_input(args, where_.mask));
  out.masks.keep_by_head = masks_heads_;
  out.sinks = optional_input(args, where_.sinks);
  if (out.sinks && converts_sinks_) {
    convert_sinks(sinks_dtype_, out.sinks, dtype_, workspace + sinks_at_, heads_);
    out.sinks = workspace + sinks_at_;
  }
  return out;
}

}  // namespace lamina::cpu
