// Decides which keys a query may see, one pair or one tile at a time. Device code.
#pragma once

#include "backends/cuda/attention/params.h"
#include "backends/cuda/gpu/gpu.h"
#include "backends/cuda/gpu/sums.h"

namespace lamina::cuda {

inline constexpr int kLowest = -(1 << 30) * 2, kHighest = (1 << 30) - 1 + (1 << 30);

LAMINA_GPU_FUNCTION int divide_up(int n, int by) { return (n + by - 1) / by; }

// The place of a token in the sense of the mask.
struct TokenPlace {
  int position, segment, block, chunk;
};

// The visibility of one batch row.
struct RowVisibility {
  int b = 0, tokens = 0, capacity = 0;
  int start = 0, last = 0;  // positions of the first and the last query, if no array has them
  int first = 0;            // over decode state: the lowest position that a query may see
  int num_keys = 0;         // keys in [0, num_keys) exist
  bool cached = false;
};

LAMINA_GPU_FUNCTION RowVisibility row_visibility(const VisibilityParams& p,
                                                 const AttentionSizes& size, int b) {
  RowVisibility row;
  row.b = b;
  row.tokens = size.q_tokens;
  row.capacity = row.num_keys = size.kv_tokens;
  row.last = size.q_tokens - 1;
  if (p.starts.value != 0) {
    row.cached = true;
    row.start = gpu::Global<const std::int32_t>(p.starts)[b];
    row.last += row.start;
    if (p.window > 0) row.first = gpu::max(0, row.start + 1 - p.window);
    if (p.chunk > 0) row.first = gpu::max(row.first, row.start / p.chunk * p.chunk);
    row.num_keys = gpu::min(row.num_keys, row.last + 1);
  }
  if (p.counts.value != 0)
    row.num_keys = gpu::min(row.num_keys, int{gpu::Global<const std::int32_t>(p.counts)[b]});
  return row;
}

LAMINA_GPU_FUNCTION int id_of(gpu::Address ids, std::int64_t at, int without) {
  return ids.value != 0 ? int{gpu::Global<const std::int32_t>(ids)[at]} : without;
}

LAMINA_GPU_FUNCTION TokenPlace query_place(const VisibilityParams& p, const RowVisibility& row,
                                           int t) {
  const std::int64_t at = std::int64_t{row.b} * row.tokens + t;
  TokenPlace place;
  place.position = id_of(p.q_positions, at, row.start + t);
  place.segment = id_of(p.q_segments, at, 1);
  place.block = id_of(p.blocks, at, 0);
  place.chunk = p.chunk > 0 ? place.position / p.chunk : 0;
  return place;
}

LAMINA_GPU_FUNCTION TokenPlace key_place(const VisibilityParams& p, const RowVisibility& row,
                                         int s) {
  const std::int64_t at = std::int64_t{row.b} * row.capacity + s;
  TokenPlace place;
  place.position = id_of(p.k_positions, at, s);
  // A slot of a ring has the latest token of its remainder.
  if (p.ring != 0) place.position = row.last - (row.last - s) % row.capacity;
  place.segment = id_of(p.k_segments, at, 1);
  place.block = 0;
  if (p.blocks.value != 0) {
    const int t = row.cached ? place.position - row.start : s;
    if (t >= 0 && t < row.tokens)
      place.block = id_of(p.blocks, std::int64_t{row.b} * row.tokens + t, 0);
  }
  place.chunk = p.chunk > 0 ? place.position / p.chunk : 0;
  return place;
}

// False only if no query sees key s. Its value must not be read: the product of its probability, 0,
// and a NaN is NaN.
LAMINA_GPU_FUNCTION bool may_be_seen(const VisibilityParams& p, const RowVisibility& row, int s) {
  if (p.k_segments.value != 0 &&
      id_of(p.k_segments, std::int64_t{row.b} * row.capacity + s, 1) == 0)
    return false;
  if (row.first == 0) return true;
  const int position = p.ring != 0 ? row.last - (row.last - s) % row.capacity : s;
  return position >= row.first;
}

// The rule without `keep`.
LAMINA_GPU_FUNCTION bool sees(const VisibilityParams& p, const TokenPlace& q, const TokenPlace& k) {
  if (p.q_segments.value != 0 && (q.segment != k.segment || q.segment == 0)) return false;
  if (k.block != 0 && q.block == k.block) return true;
  const int behind = q.position - k.position;
  if ((p.causal != 0 || p.window > 0) && behind < 0) return false;
  if (p.window > 0 && behind >= p.window) return false;
  return q.chunk == k.chunk;
}

LAMINA_GPU_FUNCTION TokenSpan empty_span() {
  return {kHighest, kLowest, kHighest, kLowest, kHighest, kLowest};
}
LAMINA_GPU_FUNCTION void extend(TokenSpan& span, const TokenPlace& place) {
  span.low_position = gpu::min(span.low_position, place.position);
  span.high_position = gpu::max(span.high_position, place.position);
  span.low_segment = gpu::min(span.low_segment, place.segment);
  span.high_segment = gpu::max(span.high_segment, place.segment);
  if (place.block == 0) return;
  span.low_block = gpu::min(span.low_block, place.block);
  span.high_block = gpu::max(span.high_block, place.block);
}
LAMINA_GPU_FUNCTION TokenSpan warp_span(TokenSpan span) {
  span.low_position = -gpu::warp_max(-span.low_position);
  span.high_position = gpu::warp_max(span.high_position);
  span.low_segment = -gpu::warp_max(-span.low_segment);
  span.high_segment = gpu::warp_max(span.high_segment);
  span.low_block = -gpu::warp_max(-span.low_block);
  span.high_block = gpu::warp_max(span.high_block);
  return span;
}

// False only if no pair is visible.
LAMINA_GPU_FUNCTION bool may_see(const VisibilityParams& p, const TokenSpan& q,
                                 const TokenSpan& k) {
  if (q.low_position > q.high_position || k.low_position > k.high_position) return false;
  if (p.q_segments.value != 0 && (k.high_segment < q.low_segment || q.high_segment < k.low_segment))
    return false;
  if (p.blocks.value != 0 && k.high_block >= q.low_block && q.high_block >= k.low_block)
    return true;
  if ((p.causal != 0 || p.window > 0) && k.low_position > q.high_position) return false;
  if (p.window > 0 && k.high_position <= q.low_position - p.window) return false;
  return p.chunk == 0 || (k.high_position / p.chunk >= q.low_position / p.chunk &&
                          q.high_position / p.chunk >= k.low_position / p.chunk);
}

// True only if all pairs are visible, disregarding `keep`.
LAMINA_GPU_FUNCTION bool all_see(const VisibilityParams& p, const TokenSpan& q,
                                 const TokenSpan& k) {
  if (p.q_segments.value != 0 &&
      (q.low_segment != q.high_segment || k.low_segment != k.high_segment ||
       q.low_segment != k.low_segment || q.low_segment == 0))
    return false;
  if ((p.causal != 0 || p.window > 0) && k.high_position > q.low_position) return false;
  if (p.window > 0 && q.high_position - k.low_position >= p.window) return false;
  return p.chunk == 0 || (q.low_position / p.chunk == q.high_position / p.chunk &&
                          k.low_position / p.chunk == k.high_position / p.chunk &&
                          q.low_position / p.chunk == k.low_position / p.chunk);
}

// True if positions follow from the index, so that no array is read to find the keys of a tile.
LAMINA_GPU_FUNCTION bool spans_follow(const VisibilityParams& p) {
  return p.q_positions.value == 0 && p.q_segments.value == 0 && p.blocks.value == 0;
}

// The tokens of a tile of rows.
LAMINA_GPU_FUNCTION int first_token(const AttentionSizes& size, int tile) {
  return tile * size.tile_rows / size.group;
}
LAMINA_GPU_FUNCTION int last_token(const AttentionSizes& size, int tile) {
  return (gpu::min((tile + 1) * size.tile_rows, size.rows) - 1) / size.group;
}

// Returns the span of the queries of a tile of rows.
LAMINA_GPU_FUNCTION TokenSpan query_span(const VisibilityParams& p, const AttentionSizes& size,
                                         const RowVisibility& row, int tile) {
  if (p.query_spans.value != 0)
    return gpu::Global<const TokenSpan>(p.query_spans)[std::int64_t{row.b} * size.row_tiles + tile];
  return {row.start + first_token(size, tile),
          row.start + last_token(size, tile),
          1,
          1,
          kHighest,
          kLowest};
}

// Returns the span of tile `tile` of keys.
LAMINA_GPU_FUNCTION TokenSpan key_span(const VisibilityParams& p, const AttentionSizes& size,
                                       const RowVisibility& row, int tile) {
  if (p.key_spans.value != 0)
    return gpu::Global<const TokenSpan>(p.key_spans)[std::int64_t{row.b} * size.key_tiles + tile];
  const int first = tile * size.tile_keys;
  const int end = gpu::min(first + size.tile_keys, row.num_keys);
  if (p.ring != 0)
    return {gpu::max(0, row.last - row.capacity + 1), row.last, 1, 1, kHighest, kLowest};
  return {first, end - 1, 1, 1, kHighest, kLowest};
}

}  // namespace lamina::cuda
