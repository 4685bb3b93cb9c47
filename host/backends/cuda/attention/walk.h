// The walk of a block over the tiles that its own tile of rows or keys meets, and the logits of
// pairs. Device code.
#pragma once

#include "backends/cuda/attention/visibility.h"

namespace lamina::cuda {

inline constexpr float kLog2E = 1.44269504088896341f, kLn2 = 0.693147180559945309f;
template <typename W>
LAMINA_GPU_FUNCTION constexpr W log2_e() {
  return static_cast<W>(1.44269504088896340736);
}
template <typename W>
LAMINA_GPU_FUNCTION constexpr W ln_2() {
  return static_cast<W>(0.69314718055994530942);
}
// Logits in units of log2: a masked pair; the maximum of a row that sees no key.
inline constexpr float kMasked = -1e30f, kNoMax = -1e29f;

#ifdef __CUDACC__
LAMINA_GPU_FUNCTION float exp2_of(float x) { return ::exp2f(x); }
LAMINA_GPU_FUNCTION double exp2_of(double x) { return ::exp2(x); }
LAMINA_GPU_FUNCTION int first_bit(std::uint32_t bits) { return __ffs(static_cast<int>(bits)) - 1; }
LAMINA_GPU_FUNCTION int count_bits(std::uint32_t bits) { return __popc(bits); }
#else
inline float exp2_of(float x) { return ::exp2f(x); }
inline double exp2_of(double x) { return ::exp2(x); }
inline int first_bit(std::uint32_t bits) { return __builtin_ctz(bits); }
inline int count_bits(std::uint32_t bits) { return __builtin_popcount(bits); }
#endif

template <typename W>
LAMINA_GPU_FUNCTION W number_at(const SmallInput& x, std::int64_t i) {
  switch (x.kind) {
    case NumberKind::f32:
      return static_cast<W>(gpu::load(gpu::Global<const float>(x.data), i));
    case NumberKind::bf16:
      return static_cast<W>(gpu::load(gpu::Global<const gpu::bfloat16>(x.data), i));
    case NumberKind::f16:
      return static_cast<W>(gpu::load(gpu::Global<const gpu::float16>(x.data), i));
    default:
      return static_cast<W>(gpu::load(gpu::Global<const double>(x.data), i));
  }
}

// A row of queries: one head of one token. `real` is false past the last row.
struct QueryRow {
  TokenPlace place;
  int token, head;
  bool real;
  std::int64_t keep;  // of its row of the mask
};

LAMINA_GPU_FUNCTION QueryRow query_row(const VisibilityParams& p, const AttentionSizes& size,
                                       const RowVisibility& row, int kv_head, int r) {
  QueryRow q;
  q.real = r < size.rows;
  const int at = q.real ? r : 0;
  q.token = at / size.group;
  q.head = kv_head * size.group + at % size.group;
  q.place = query_place(p, row, q.token);
  const std::int64_t mask = p.keep_by_head != 0 ? std::int64_t{row.b} * size.heads + q.head : row.b;
  q.keep = (mask * size.q_tokens + q.token) * size.kv_tokens;
  return q;
}

// The decision for one pair of a tile that is visible in part.
LAMINA_GPU_FUNCTION bool sees_key(const VisibilityParams& p, gpu::Global<const std::uint8_t> keep,
                                  const QueryRow& q, const TokenPlace& k, int s, int num_keys) {
  if (!q.real || s >= num_keys || !sees(p, q.place, k)) return false;
  return p.keep.value == 0 || keep[q.keep + s] != 0;
}

// Elements between neighbouring rows of q are in the order of tokens and heads.
LAMINA_GPU_FUNCTION std::int64_t query_offset(const AttentionSizes& size, int b, int kv_head, int r,
                                              int width) {
  const int token = r / size.group, head = kv_head * size.group + r % size.group;
  return ((std::int64_t{b} * size.q_tokens + token) * size.heads + head) * width;
}
// Returns the place of a number per head and token, [B, N, T].
LAMINA_GPU_FUNCTION std::int64_t stat_offset(const AttentionSizes& size, int b, int kv_head,
                                             int r) {
  const int token = r / size.group, head = kv_head * size.group + r % size.group;
  return (std::int64_t{b} * size.heads + head) * size.q_tokens + token;
}

// The logit of a product after scale and cap, in natural units.
template <typename W>
LAMINA_GPU_FUNCTION W capped(const LogitParams& p, W product) {
  const W x = product * static_cast<W>(p.scale);
  if (p.soft_cap == 0) return x;
  const W cap = static_cast<W>(p.soft_cap);
  return cap * gpu::tanh(x / cap);
}
// The derivative of `capped` by the product, at a logit.
template <typename W>
LAMINA_GPU_FUNCTION W capped_slope(const LogitParams& p, W logit) {
  W slope = static_cast<W>(p.scale);
  if (p.soft_cap == 0) return slope;
  const W part = logit / static_cast<W>(p.soft_cap);
  return slope * (1 - part * part);
}

LAMINA_GPU_FUNCTION bool has_bias(const LogitParams& p) {
  return p.slopes.data.value != 0 || p.bias.data.value != 0;
}
LAMINA_GPU_FUNCTION int distance_of(const TokenPlace& q, const TokenPlace& k) {
  const int behind = q.position - k.position;
  return behind < 0 ? -behind : behind;
}
template <typename W>
LAMINA_GPU_FUNCTION W bias_of(const LogitParams& p, int head, int distance) {
  W sum = 0;
  if (p.bias.data.value != 0)
    sum += number_at<W>(p.bias,
                        std::int64_t{head} * p.distances + gpu::min(distance, p.distances - 1));
  if (p.slopes.data.value != 0) sum -= number_at<W>(p.slopes, head) * static_cast<W>(distance);
  return sum;
}

LAMINA_GPU_FUNCTION bool keeps_tile(const VisibilityParams& p, const AttentionSizes& size, int b,
                                    int kv_head, int row_tile, int key_tile) {
  if (p.kept_tiles.value == 0) return true;
  const std::int64_t mask = p.keep_by_head != 0 ? std::int64_t{b} * size.kv_heads + kv_head : b;
  return gpu::Global<const std::uint8_t>(
             p.kept_tiles)[(mask * size.row_tiles + row_tile) * size.key_tiles + key_tile] != 0;
}

// The tiles of keys that a tile of rows meets, or with kOfKeys the tiles of rows that a tile of
// keys meets, in rising order. All lanes of all warps have the same walk.
template <bool kOfKeys>
struct Walk {
  const VisibilityParams& p;
  const AttentionSizes& size;
  RowVisibility row;
  int kv_head, own;  // the tile that meets the others
  TokenSpan span;    // of the own tile
  int first, end;    // the others

  LAMINA_GPU_FUNCTION TokenSpan other(int tile) const {
    return kOfKeys ? query_span(p, size, row, tile) : key_span(p, size, row, tile);
  }
  LAMINA_GPU_FUNCTION bool meets(int tile) const {
    const int row_tile = kOfKeys ? tile : own, key_tile = kOfKeys ? own : tile;
    if (!keeps_tile(p, size, row.b, kv_head, row_tile, key_tile)) return false;
    return kOfKeys ? may_see(p, other(tile), span) : may_see(p, span, other(tile));
  }
  // Returns the first tile from `tile` on with pairs that may be visible; `end` if there is none.
  LAMINA_GPU_FUNCTION int next(int tile) const {
    for (; tile < end; tile += gpu::kWarpSize) {
      const int mine = tile + gpu::lane();
      const std::uint32_t found = gpu::ballot(mine < end && meets(mine));
      if (found != 0) return tile + first_bit(found);
    }
    return end;
  }
  // True if all pairs exist and are visible.
  LAMINA_GPU_FUNCTION bool whole(int tile) const {
    const int row_tile = kOfKeys ? tile : own;
    return (row_tile + 1) * size.tile_rows <= size.rows && whole_keys(tile);
  }
  // True if all keys exist and all rows that exist see them.
  LAMINA_GPU_FUNCTION bool whole_keys(int tile) const {
    const int key_tile = kOfKeys ? own : tile;
    if (p.keep.value != 0 || (key_tile + 1) * size.tile_keys > row.num_keys) return false;
    return kOfKeys ? all_see(p, other(tile), span) : all_see(p, span, other(tile));
  }
};

// The tiles of keys before `end_key` of a tile of rows. If positions follow from the index, tiles
// outside a window or a chunk and after the last query are left out without a test.
LAMINA_GPU_FUNCTION Walk<false> key_walk(const VisibilityParams& p, const AttentionSizes& size,
                                         const RowVisibility& row, int kv_head, int row_tile,
                                         int end_key) {
  const TokenSpan span = query_span(p, size, row, row_tile);
  int first = 0, end = gpu::min(end_key, row.num_keys);
  if (spans_follow(p) && p.ring == 0) {
    if (p.causal != 0 || p.window > 0) end = gpu::min(end, span.high_position + 1);
    if (p.window > 0) first = gpu::max(first, span.low_position - p.window + 1);
    if (p.chunk > 0) first = gpu::max(first, span.low_position / p.chunk * p.chunk);
  }
  return {p,
          size,
          row,
          kv_head,
          row_tile,
          span,
          first / size.tile_keys,
          divide_up(gpu::max(end, 0), size.tile_keys)};
}

LAMINA_GPU_FUNCTION Walk<true> row_walk(const VisibilityParams& p, const AttentionSizes& size,
                                        const RowVisibility& row, int kv_head, int key_tile) {
  const TokenSpan span = key_span(p, size, row, key_tile);
  int first = 0, end = size.rows;
  if (spans_follow(p)) {
    if (p.causal != 0 || p.window > 0) first = span.low_position;
    if (p.window > 0) {
      const std::int64_t reach = (std::int64_t{span.high_position} + p.window) * size.group;
      end = static_cast<int>(gpu::min(std::int64_t{end}, reach));
    }
  }
  return {p,
          size,
          row,
          kv_head,
          key_tile,
          span,
          first * size.group / size.tile_rows,
          divide_up(end, size.tile_rows)};
}

}  // namespace lamina::cuda
