// The part of attention that one block computes, and places of its operands. Device code.
#pragma once

#include "backends/cuda/attention/walk.h"

namespace lamina::cuda {

// A tile in shared memory.
template <typename T>
struct Tile {
  gpu::Shared<T> data;
  int stride;
};

struct BlockPlace {
  int b, kv_head, tile, split;
};

// Blocks of one key head are neighbours, so that they read its keys from the L2 cache together.
// Tiles count down: under a causal mask the last rows have the most keys and should start first.
LAMINA_GPU_FUNCTION BlockPlace block_place(const AttentionSizes& size, int tiles, int splits) {
  BlockPlace place;
  const int index = gpu::block_index() / splits;
  place.split = gpu::block_index() % splits;
  place.tile = tiles - 1 - index % tiles;
  place.kv_head = index / tiles % size.kv_heads;
  place.b = index / tiles / size.kv_heads;
  return place;
}

// The place of key s in k, or in v for another width.
struct KeyRows {
  gpu::Global<const std::int32_t> slots;  // null: key s is row s
  std::int64_t first_row;
  int kv_heads, kv_head;

  LAMINA_GPU_FUNCTION std::int64_t offset(int s, int width) const {
    const int row = slots ? int{slots[s]} : s;
    return ((first_row + row) * kv_heads + kv_head) * width;
  }
  // Likewise for a value, or -1 if no query sees it.
  LAMINA_GPU_FUNCTION std::int64_t value_offset(const VisibilityParams& p, const RowVisibility& row,
                                                int s, int width) const {
    return may_be_seen(p, row, s) ? offset(s, width) : -1;
  }
};

LAMINA_GPU_FUNCTION KeyRows key_rows(const AttentionParams& p, const BlockPlace& place) {
  KeyRows rows{
      {}, std::int64_t{place.b / p.batch_per_keys} * p.key_rows, p.size.kv_heads, place.kv_head};
  if (p.slots.value != 0)
    rows.slots =
        gpu::Global<const std::int32_t>(p.slots) + std::int64_t{place.b} * p.size.kv_tokens;
  return rows;
}

// The place of a row's partial results, in rows of v's width or of 1.
LAMINA_GPU_FUNCTION std::int64_t partial_row(const AttentionSizes& size, int splits, int b,
                                             int kv_head, int split, int r) {
  return ((std::int64_t{b} * size.kv_heads + kv_head) * splits + split) * size.rows + r;
}

// A row's softmax with the sink: y is the sum of weighted values times `factor`.
template <typename W>
struct Normalized {
  W factor, lse;
};
template <typename W>
LAMINA_GPU_FUNCTION Normalized<W> normalize(const SmallInput& sinks, int head, W top, W sum) {
  W shift = top, scale = 1;
  if (sinks.data.value != 0) {
    const W sink = gpu::max(number_at<W>(sinks, head) * log2_e<W>(), W{kMasked});
    shift = gpu::max(top, sink);
    scale = exp2_of(top - shift);
    sum = sum * scale + exp2_of(sink - shift);
  }
  if (sum == 0) return {0, -static_cast<W>(gpu::infinity())};
  return {scale / sum, shift * ln_2<W>() + gpu::log(sum)};
}

}  // namespace lamina::cuda
