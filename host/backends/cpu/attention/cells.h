// Masks by cells: finds the 16 by 16 cells of a tile of 64 keys by 64 query rows that are open, and
// those in which every pair must be checked. Internal to each file that includes it.
#pragma once

#include "backends/cpu/attention/mask.h"
#include "backends/cpu/attention/tasks.h"
#include "backends/cpu/simd/vectors.h"

namespace lamina::cpu {
namespace {

struct Bounds {
  std::int32_t position_min, position_max, chunk_min, chunk_max, segment_min, segment_max;
  bool any_block, any_valid, all_valid;
};

// Up to 64 rows or keys, with the values that masks compare.
struct Side {
  alignas(64) std::int32_t position[kTile], segment[kTile], block[kTile], chunk[kTile];
  Bounds cell[kCells], all;
  std::int64_t count, cells;
};

struct MaskRule {
  bool segments, causal, blocks;
  std::int32_t window, chunk;
};

inline MaskRule mask_rule(const AttentionSpec& spec, const AttentionMasks& masks) {
  const std::int64_t no_limit = std::int64_t{1} << 30;
  return {masks.q_segments != nullptr, spec.causal, masks.q_blocks != nullptr,
          static_cast<std::int32_t>(min(spec.window, no_limit)),
          static_cast<std::int32_t>(min(spec.chunk, no_limit))};
}

inline Bounds bounds_of(const Side& s, std::int64_t begin, std::int64_t end) {
  Bounds b{INT32_MAX, INT32_MIN, INT32_MAX, INT32_MIN, INT32_MAX, INT32_MIN, false, false, true};
  for (std::int64_t i = begin; i < end; ++i) {
    if (s.position[i] == kNoPosition) {
      b.all_valid = false;
      continue;
    }
    b.any_valid = true;
    b.any_block |= s.block[i] != 0;
    b.position_min = s.position[i] < b.position_min ? s.position[i] : b.position_min;
    b.position_max = s.position[i] > b.position_max ? s.position[i] : b.position_max;
    b.segment_min = s.segment[i] < b.segment_min ? s.segment[i] : b.segment_min;
    b.segment_max = s.segment[i] > b.segment_max ? s.segment[i] : b.segment_max;
    b.chunk_min = s.chunk[i] < b.chunk_min ? s.chunk[i] : b.chunk_min;
    b.chunk_max = s.chunk[i] > b.chunk_max ? s.chunk[i] : b.chunk_max;
  }
  return b;
}

// Returns the bounds of keys first, first + 1, ... of one segment, without visiting each key.
inline Bounds bounds_of_run(std::int64_t first, std::int64_t count, std::int64_t whole,
                            const MaskRule& rule) {
  Bounds b{};
  b.position_min = static_cast<std::int32_t>(first);
  b.position_max = static_cast<std::int32_t>(first + count - 1);
  if (rule.chunk > 0) {
    b.chunk_min = b.position_min / rule.chunk;
    b.chunk_max = b.position_max / rule.chunk;
  }
  b.any_valid = true;
  b.all_valid = count == whole;
  return b;
}

// Pads to whole cells: with keys that no query may see, or with copies of the last row. REQUIRES:
// position, segment and block of [0, count) are set.
inline void finish_side(Side& s, const MaskRule& rule, bool keys) {
  s.cells = divide_up(s.count, kCell);
  for (std::int64_t i = s.count; i < s.cells * kCell; ++i) {
    s.position[i] = keys ? kNoPosition : s.position[s.count - 1];
    s.segment[i] = keys ? 0 : s.segment[s.count - 1];
    s.block[i] = keys ? 0 : s.block[s.count - 1];
  }
  for (std::int64_t i = 0; i < s.cells * kCell; ++i)
    s.chunk[i] = rule.chunk > 0 ? s.position[i] / rule.chunk : 0;
  for (std::int64_t c = 0; c < s.cells; ++c) s.cell[c] = bounds_of(s, c * kCell, (c + 1) * kCell);
  s.all = bounds_of(s, 0, s.cells * kCell);
}

enum class Visibility { none, some, all };

// Returns which of the keys the rows may see, judged by bounds only. `some` is always a correct
// answer.
inline Visibility visibility(const MaskRule& rule, const Bounds& q, const Bounds& k) {
  if (!k.any_valid) return Visibility::none;
  bool none = false, all = k.all_valid;
  if (rule.segments) {
    none |= q.segment_max < k.segment_min || q.segment_min > k.segment_max ||
            (q.segment_min == 0 && q.segment_max == 0);
    all &= q.segment_min == q.segment_max && k.segment_min == k.segment_max &&
           q.segment_min == k.segment_min && q.segment_min != 0;
  }
  if (rule.causal || rule.window > 0) {
    none |= q.position_max < k.position_min;
    all &= q.position_min >= k.position_max;
  }
  if (rule.window > 0) {
    none |= q.position_min - k.position_max >= rule.window;
    all &= q.position_max - k.position_min < rule.window;
  }
  if (rule.chunk > 0) {
    none |= q.chunk_max < k.chunk_min || q.chunk_min > k.chunk_max;
    all &= q.chunk_min == q.chunk_max && k.chunk_min == k.chunk_max && q.chunk_min == k.chunk_min;
  }
  if (none && rule.blocks && q.any_block && k.any_block) return Visibility::some;
  return none ? Visibility::none : all ? Visibility::all : Visibility::some;
}

// Per cell of keys: the range of row cells [first, last) to compute, and the cells that need a
// mask.
struct OpenCells {
  std::int64_t first[kCells], last[kCells];
  unsigned partial[kCells];  // bit c: row cell c
};

// Finds the open cells. Returns false if no row may see any key.
inline bool open_cells(const MaskRule& rule, const Side& q, const Side& k, OpenCells& open) {
  const Visibility whole = visibility(rule, q.all, k.all);
  if (whole == Visibility::none) return false;
  bool any = false;
  for (std::int64_t i = 0; i < k.cells; ++i) {
    open.first[i] = open.last[i] = 0;
    open.partial[i] = 0;
    if (whole == Visibility::all) {
      open.last[i] = q.cells;
      any = true;
      continue;
    }
    for (std::int64_t c = 0; c < q.cells; ++c) {
      const Visibility s = visibility(rule, q.cell[c], k.cell[i]);
      if (s != Visibility::all) open.partial[i] |= 1u << c;
      if (s == Visibility::none) continue;
      if (open.last[i] == 0) open.first[i] = c;
      open.last[i] = c + 1;
      any = true;
    }
  }
  return any;
}

// The next run [begin, end) of key cells with the same non-empty range of row cells; begin = -1 at
// the end.
struct CellRun {
  std::int64_t begin, end, first, last;
};
inline CellRun next_run(const OpenCells& open, std::int64_t cells, std::int64_t from) {
  while (from < cells && open.first[from] == open.last[from]) ++from;
  if (from >= cells) return {-1, 0, 0, 0};
  std::int64_t end = from + 1;
  while (end < cells && open.first[end] == open.first[from] && open.last[end] == open.last[from])
    ++end;
  return {from, end, open.first[from], open.last[from]};
}

// A mask of pairs over a tile: -1 if key j and row `lane` are kept, else 0.
struct KeptTile {
  alignas(64) std::int32_t pair[kTile][kTile];  // [key][row]
};

// Copies the part of the mask for a tile, and closes cells without kept pairs. In the remaining
// cells every pair is checked. The rows belong to key head kv_head.
inline void keep_pairs(const RowMasks& masks, const Sizes& sizes, std::int64_t kv_head,
                       std::int64_t first_row, std::int64_t first_key, const Side& q, const Side& k,
                       OpenCells& open, KeptTile& kept) {
  bool any[kCells][kCells] = {};  // [key cell][row cell]
  RowCursor row(sizes, first_row);
  for (std::int64_t i = 0; i < q.cells * kCell; ++i, row.next()) {
    const bool real = i < q.count;
    // Rows of the same token have the same mask.
    const bool again = real && i > 0 && row.g > 0 && masks.keep_head == 0;
    const std::int64_t head = kv_head * sizes.group + row.g;
    const std::uint8_t* keep =
        masks.keep + (real ? head * masks.keep_head + row.t * masks.capacity + first_key : 0);
    for (std::int64_t j = 0; j < k.cells * kCell; ++j) {
      std::int32_t value = again ? kept.pair[j][i - 1] : real && j < k.count && keep[j] ? -1 : 0;
      kept.pair[j][i] = value;
      any[j / kCell][i / kCell] |= value != 0;
    }
  }
  for (std::int64_t i = 0; i < k.cells; ++i) {
    open.partial[i] = ~0u;
    while (open.first[i] < open.last[i] && !any[i][open.first[i]]) ++open.first[i];
    while (open.last[i] > open.first[i] && !any[i][open.last[i] - 1]) --open.last[i];
    if (open.first[i] == open.last[i]) open.first[i] = open.last[i] = 0;
  }
}

// Masks the logits of key j for the rows [lane, lane + lanes) that may not see it; kept may be
// null.
template <class V>
LAMINA_SIMD typename V::F mask_logits(const MaskRule& rule, const Side& q, const Side& k,
                                      const KeptTile* kept, std::int64_t lane, std::int64_t j,
                                      typename V::F x) {
  using I = typename V::I;
  if (k.position[j] == kNoPosition) return V::set(kMasked);
  I ok = V::set_int(-1);
  if (rule.causal || rule.window > 0) {
    const I distance = V::load_int(q.position + lane) - V::set_int(k.position[j]);
    ok &= distance >= V::set_int(0);
    if (rule.window > 0) ok &= distance < V::set_int(rule.window);
  }
  if (rule.chunk > 0) ok &= V::load_int(q.chunk + lane) == V::set_int(k.chunk[j]);
  if (rule.blocks && k.block[j] != 0) ok |= V::load_int(q.block + lane) == V::set_int(k.block[j]);
  if (rule.segments)
    ok &= (V::load_int(q.segment + lane) == V::set_int(k.segment[j])) &
          V::set_int(k.segment[j] == 0 ? 0 : -1);
  if (kept) ok &= V::load_int(kept->pair[j] + lane);
  return V::select(ok, x, V::set(kMasked));
}

// Returns the token's block; padding has none.
inline std::int32_t block_of(const std::int32_t* blocks, const std::int32_t* segments,
                             std::int64_t t) {
  return blocks == nullptr || (segments && segments[t] == 0) ? 0 : blocks[t];
}

inline void fill_query_side(const RowMasks& masks, const MaskRule& rule, const Sizes& sizes,
                            std::int64_t first_row, Side& side) {
  side.count = min(kTile, sizes.rows - first_row);
  RowCursor row(sizes, first_row);
  for (std::int64_t i = 0; i < side.count; ++i, row.next()) {
    side.position[i] = masks.q_position(row.t);
    side.segment[i] = masks.q_segments ? masks.q_segments[row.t] : 0;
    side.block[i] = block_of(masks.q_blocks, masks.q_segments, row.t);
  }
  finish_side(side, rule, false);
}

inline void fill_key_side(const RowMasks& masks, const MaskRule& rule, std::int64_t first_key,
                          std::int64_t end_key, Side& side) {
  side.count = min(kTile, end_key - first_key);
  if (!masks.cached && !masks.k_positions && !masks.k_segments && !masks.k_blocks) {
    side.cells = divide_up(side.count, kCell);
    for (std::int64_t i = 0; i < kTile; ++i) {
      side.position[i] = i < side.count ? static_cast<std::int32_t>(first_key + i) : kNoPosition;
      side.segment[i] = side.block[i] = side.chunk[i] = 0;
    }
    for (std::int64_t i = 0; rule.chunk > 0 && i < side.count; ++i)
      side.chunk[i] = side.position[i] / rule.chunk;
    for (std::int64_t c = 0; c < side.cells; ++c)
      side.cell[c] =
          bounds_of_run(first_key + c * kCell, min(kCell, side.count - c * kCell), kCell, rule);
    side.all = bounds_of_run(first_key, side.count, side.cells * kCell, rule);
    return;
  }
  for (std::int64_t i = 0; i < side.count; ++i) {
    side.position[i] = masks.k_position(first_key + i);
    side.segment[i] = masks.k_segments ? masks.k_segments[first_key + i] : 0;
    side.block[i] = block_of(masks.k_blocks, masks.k_segments, first_key + i);
  }
  finish_side(side, rule, true);
}

}  // namespace
}  // namespace lamina::cpu
