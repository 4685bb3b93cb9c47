// How the attention kernels cut their work: tiles of 64 keys by 64 query rows, the cells of 16 by
// 16 in them that masks leave open, and the copies of tokens that the products read.
//
// All query heads of a key head share its keys, so a "row" is a (token, head of the group) pair:
// row r is token r / group, head r % group. Internal to each file that includes it.
#pragma once

#include "backends/cpu/attention_mask.h"
#include "backends/cpu/attention_simd.h"
#include "backends/cpu/threads.h"

namespace lamina::cpu {
namespace {

constexpr std::int64_t kTile = 64;  // rows of a block, keys of a tile
constexpr std::int64_t kCell = 16;  // rows and keys of a cell
constexpr std::int64_t kCells = kTile / kCell;
constexpr float kMasked = -1e30f;  // a logit that counts as none
constexpr float kEmpty = -1e29f;   // a maximum below this: nothing was allowed
constexpr float kLog2E = 1.44269504088896341f, kLn2 = 0.693147180559945309f;

constexpr std::int64_t round_up(std::int64_t n, std::int64_t m) { return (n + m - 1) / m * m; }
constexpr std::int64_t ceil_div(std::int64_t n, std::int64_t m) { return (n + m - 1) / m; }
constexpr std::int64_t least(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
constexpr std::int64_t most(std::int64_t a, std::int64_t b) { return a > b ? a : b; }

// Hands out 64-byte aligned pieces of a workspace; with a null base it only counts.
class Arena {
 public:
  explicit Arena(std::byte* base) : base_(base) {}
  template <class T>
  T* take(std::int64_t count) {
    T* p = base_ ? reinterpret_cast<T*>(base_ + used_) : nullptr;
    used_ += round_up(count * static_cast<std::int64_t>(sizeof(T)), 64);
    return p;
  }
  std::int64_t used_bytes() const { return used_; }

 private:
  std::byte* base_;
  std::int64_t used_ = 0;
};

// function(task, thread) for all tasks; a free thread takes the next one. For tasks of uneven cost
// that write only their own outputs.
template <typename Function>
void parallel_uneven_tasks(std::int64_t num_tasks, const Function& function) {
  std::int64_t next = 0;
  parallel_ranges(least(num_tasks, num_threads()), 1,
                  [&](std::int64_t begin, std::int64_t end, int thread) {
                    if (begin == end) return;
                    for (;;) {
                      const std::int64_t task = __atomic_fetch_add(&next, 1, __ATOMIC_RELAXED);
                      if (task >= num_tasks) return;
                      function(task, thread);
                    }
                  });
}

// What all tasks of one run share about sizes; kPairs: words hold two bf16.
struct Sizes {
  std::int64_t group, rows, blocks;  // of one (batch row, key head)
  std::int64_t qk_words, v_words;    // of one token
  std::int64_t qk_width, v_width;    // dims, rounded up to whole cells
};

inline Sizes sizes_of(const AttentionSpec& spec, bool pairs) {
  Sizes s;
  s.group = spec.heads / spec.kv_heads;
  s.rows = spec.q_tokens * s.group;
  s.blocks = ceil_div(s.rows, kTile);
  s.qk_words = pairs ? ceil_div(spec.qk_dim, 2) : spec.qk_dim;
  s.v_words = pairs ? ceil_div(spec.v_dim, 2) : spec.v_dim;
  s.qk_width = round_up(spec.qk_dim, kCell);
  s.v_width = round_up(spec.v_dim, kCell);
  return s;
}

// Row r as (token, head of the group), without divisions from row to row.
struct RowCursor {
  std::int64_t group, t, g;
  RowCursor(const Sizes& sizes, std::int64_t row)
      : group(sizes.group), t(row / sizes.group), g(row % sizes.group) {}
  void next() {
    if (++g == group) {
      g = 0;
      ++t;
    }
  }
};

// ---- masks by cells ----

struct Bounds {
  std::int32_t position_min, position_max, chunk_min, chunk_max, segment_min, segment_max;
  bool any_block, any_valid, all_valid;
};

// Up to 64 rows or keys, with what masks ask about them.
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
          static_cast<std::int32_t>(least(spec.window, no_limit)),
          static_cast<std::int32_t>(least(spec.chunk, no_limit))};
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

// Keys first, first + 1, ... of one segment: bounds without a look at each.
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

// Call after position, segment and block of [0, count) are set. Pads to whole cells: with keys that
// nobody may see, or with copies of the last row.
inline void finish_side(Side& s, const MaskRule& rule, bool keys) {
  s.cells = ceil_div(s.count, kCell);
  for (std::int64_t i = s.count; i < s.cells * kCell; ++i) {
    s.position[i] = keys ? kNoPosition : s.position[s.count - 1];
    s.segment[i] = keys ? -1 : s.segment[s.count - 1];
    s.block[i] = keys ? 0 : s.block[s.count - 1];
  }
  for (std::int64_t i = 0; i < s.cells * kCell; ++i)
    s.chunk[i] = rule.chunk > 0 ? s.position[i] / rule.chunk : 0;
  for (std::int64_t c = 0; c < s.cells; ++c) s.cell[c] = bounds_of(s, c * kCell, (c + 1) * kCell);
  s.all = bounds_of(s, 0, s.cells * kCell);
}

enum class Sight { none, some, all };

// What the rows may see of the keys, as far as bounds tell: `some` is always a right answer.
inline Sight sight(const MaskRule& rule, const Bounds& q, const Bounds& k) {
  if (!k.any_valid) return Sight::none;
  bool none = false, all = k.all_valid;
  if (rule.segments) {
    none |= q.segment_max < k.segment_min || q.segment_min > k.segment_max || q.segment_max < 0;
    all &= q.segment_min == q.segment_max && k.segment_min == k.segment_max &&
           q.segment_min == k.segment_min && q.segment_min >= 0;
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
  if (none && rule.blocks && q.any_block && k.any_block) return Sight::some;
  return none ? Sight::none : all ? Sight::all : Sight::some;
}

// Per cell of keys, the range of row cells [first, last) to compute, and which of them need a mask.
struct OpenCells {
  std::int64_t first[kCells], last[kCells];
  unsigned partial[kCells];  // bit c: row cell c
};

// False if no row may see any key.
inline bool open_cells(const MaskRule& rule, const Side& q, const Side& k, OpenCells& open) {
  const Sight whole = sight(rule, q.all, k.all);
  if (whole == Sight::none) return false;
  bool any = false;
  for (std::int64_t i = 0; i < k.cells; ++i) {
    open.first[i] = open.last[i] = 0;
    open.partial[i] = 0;
    if (whole == Sight::all) {
      open.last[i] = q.cells;
      any = true;
      continue;
    }
    for (std::int64_t c = 0; c < q.cells; ++c) {
      const Sight s = sight(rule, q.cell[c], k.cell[i]);
      if (s != Sight::all) open.partial[i] |= 1u << c;
      if (s == Sight::none) continue;
      if (open.last[i] == 0) open.first[i] = c;
      open.last[i] = c + 1;
      any = true;
    }
  }
  return any;
}

// The next run [begin, end) of key cells with one non-empty range of row cells; begin = -1: no
// more.
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

// Replaces the logits of key j that the rows [lane, lane + lanes) may not see.
template <class V>
LAMINA_ALWAYS_INLINE typename V::F mask_logits(const MaskRule& rule, const Side& q, const Side& k,
                                               std::int64_t lane, std::int64_t j, typename V::F x) {
  using I = typename V::I;
  if (k.position[j] == kNoPosition) return V::set(kMasked);
  I ok = V::set_int(-1);
  if (rule.segments)
    ok &= (V::load_int(q.segment + lane) == V::set_int(k.segment[j])) &
          V::set_int(k.segment[j] < 0 ? 0 : -1);
  if (rule.causal || rule.window > 0) {
    const I distance = V::load_int(q.position + lane) - V::set_int(k.position[j]);
    ok &= distance >= V::set_int(0);
    if (rule.window > 0) ok &= distance < V::set_int(rule.window);
  }
  if (rule.chunk > 0) ok &= V::load_int(q.chunk + lane) == V::set_int(k.chunk[j]);
  if (rule.blocks && k.block[j] != 0) ok |= V::load_int(q.block + lane) == V::set_int(k.block[j]);
  return V::select(ok, x, V::set(kMasked));
}

inline void fill_query_side(const RowMasks& masks, const MaskRule& rule, const Sizes& sizes,
                            std::int64_t first_row, Side& side) {
  side.count = least(kTile, sizes.rows - first_row);
  RowCursor row(sizes, first_row);
  for (std::int64_t i = 0; i < side.count; ++i, row.next()) {
    side.position[i] = masks.q_position(row.t);
    side.segment[i] = masks.q_segments ? masks.q_segments[row.t] : 0;
    side.block[i] = masks.q_blocks ? masks.q_blocks[row.t] : 0;
  }
  finish_side(side, rule, false);
}

inline void fill_key_side(const RowMasks& masks, const MaskRule& rule, std::int64_t first_key,
                          std::int64_t end_key, Side& side) {
  side.count = least(kTile, end_key - first_key);
  if (!masks.cached && !masks.k_positions && !masks.k_segments && !masks.k_blocks) {
    side.cells = ceil_div(side.count, kCell);
    for (std::int64_t i = 0; i < kTile; ++i) {
      side.position[i] = i < side.count ? static_cast<std::int32_t>(first_key + i) : kNoPosition;
      side.segment[i] = side.block[i] = side.chunk[i] = 0;
    }
    for (std::int64_t i = 0; rule.chunk > 0 && i < side.count; ++i)
      side.chunk[i] = side.position[i] / rule.chunk;
    for (std::int64_t c = 0; c < side.cells; ++c)
      side.cell[c] =
          bounds_of_run(first_key + c * kCell, least(kCell, side.count - c * kCell), kCell, rule);
    side.all = bounds_of_run(first_key, side.count, side.cells * kCell, rule);
    return;
  }
  for (std::int64_t i = 0; i < side.count; ++i) {
    side.position[i] = masks.k_position(first_key + i);
    side.segment[i] = masks.k_segments ? masks.k_segments[first_key + i] : 0;
    side.block[i] = masks.k_blocks ? masks.k_blocks[first_key + i] : 0;
  }
  finish_side(side, rule, true);
}

// ---- copies of tokens ----

// Where up to 64 tokens lie; null: a row of zeros.
template <class T>
struct Tokens {
  const T* row[kTile];

  void from_queries(const AttentionInput& x, const Sizes& sizes, std::int64_t b,
                    std::int64_t kv_head, std::int64_t first_row) {
    const T* base = static_cast<const T*>(x.data) + b * x.strides.batch +
                    kv_head * sizes.group * x.strides.head;
    RowCursor r(sizes, first_row);
    for (std::int64_t i = 0; i < kTile; ++i, r.next())
      row[i] = first_row + i < sizes.rows ? base + r.t * x.strides.token + r.g * x.strides.head
                                          : nullptr;
  }
  void from_keys(const AttentionInput& x, const Side& keys, std::int64_t b, std::int64_t kv_head,
                 std::int64_t first_key) {
    const T* base = static_cast<const T*>(x.data) + b * x.strides.batch + kv_head * x.strides.head +
                    first_key * x.strides.token;
    for (std::int64_t i = 0; i < kTile; ++i)
      row[i] =
          i < keys.count && keys.position[i] != kNoPosition ? base + i * x.strides.token : nullptr;
  }
};

// Asks for part `part` of `parts` of the tokens [first, first + 64) of a head, as far as they
// exist.
inline void prefetch_tokens(const AttentionInput& x, std::int64_t element_bytes, std::int64_t dim,
                            std::int64_t b, std::int64_t head, std::int64_t first, std::int64_t end,
                            std::int64_t part, std::int64_t parts) {
  const auto* base = static_cast<const char*>(x.data) +
                     (b * x.strides.batch + head * x.strides.head) * element_bytes;
  const std::int64_t last = least(end, first + kTile * (part + 1) / parts);
  for (std::int64_t t = first + kTile * part / parts; t < last; ++t)
    for (std::int64_t i = 0; i < dim * element_bytes; i += 64)
      __builtin_prefetch(base + t * x.strides.token * element_bytes + i, 0, 2);
}

// Asks for the 64 rows of queries (or of their outputs, to be written) from first_row.
template <bool kWrite>
void prefetch_rows(const void* data, const AttentionStrides& strides, std::int64_t element_bytes,
                   std::int64_t dim, const Sizes& sizes, std::int64_t b, std::int64_t kv_head,
                   std::int64_t first_row) {
  const auto* base = static_cast<const char*>(data) +
                     (b * strides.batch + kv_head * sizes.group * strides.head) * element_bytes;
  RowCursor row(sizes, first_row);
  for (std::int64_t i = first_row; i < least(sizes.rows, first_row + kTile); ++i, row.next()) {
    const char* p = base + (row.t * strides.token + row.g * strides.head) * element_bytes;
    for (std::int64_t j = 0; j < dim * element_bytes; j += 64)
      __builtin_prefetch(p + j, kWrite ? 1 : 0, 2);
  }
}

// Copies of tokens as operands. T: float, or uint16_t for bf16.
template <class V, class T, bool kPairs>
struct Operands {
  static constexpr int L = V::kLanes;
  static std::int64_t words(std::int64_t dim) { return kPairs ? ceil_div(dim, 2) : dim; }
  // Words along the tokens of a tile.
  static constexpr std::int64_t kDepth = kPairs ? kTile / 2 : kTile;
  static constexpr std::int64_t kCellDepth = kPairs ? kCell / 2 : kCell;

  static void copy_row(const T* src, std::int64_t dim, Word* dst) {
    if constexpr (kPairs) {
      std::memcpy(dst, src, static_cast<std::size_t>(dim) * 2);
      if (dim % 2) dst[dim / 2] = src[dim - 1];
    } else if constexpr (sizeof(T) == 4) {
      std::memcpy(dst, src, static_cast<std::size_t>(dim) * 4);
    } else {
      widen_row(src, dim, dst);
    }
  }

  // dst[token][stride]: neighbours are dims.
  static void rows(const Tokens<T>& tokens, std::int64_t count, std::int64_t dim,
                   std::int64_t stride, Word* dst) {
    for (std::int64_t i = 0; i < count; ++i, dst += stride) {
      if (tokens.row[i])
        copy_row(tokens.row[i], dim, dst);
      else
        std::memset(dst, 0, static_cast<std::size_t>(words(dim)) * sizeof(Word));
    }
  }

  // dst[token (pair)][width]: neighbours are tokens; zeros behind dim.
  static void across(const Tokens<T>& tokens, std::int64_t count, std::int64_t dim,
                     std::int64_t width, Word* dst) {
    if constexpr (!kPairs) {
      rows(tokens, count, dim, width, dst);
      for (std::int64_t i = 0; i < count && dim < width; ++i)
        std::memset(dst + i * width + dim, 0, static_cast<std::size_t>(width - dim) * sizeof(Word));
    } else {
      for (std::int64_t i = 0; i < count; i += 2, dst += width) {
        const T* low = tokens.row[i];
        const T* high = tokens.row[i + 1];
        if (low && high)
          for (std::int64_t h = 0; h < dim; ++h)
            dst[h] = low[h] | static_cast<std::uint32_t>(high[h]) << 16;
        else
          for (std::int64_t h = 0; h < dim; ++h)
            dst[h] = (low ? low[h] : 0u) | (high ? static_cast<std::uint32_t>(high[h]) << 16 : 0u);
        for (std::int64_t h = dim; h < width; ++h) dst[h] = 0;
      }
    }
  }

  // dst[word of the dim][64 tokens]; staging: 64 * round_up(words(dim), 16) words.
  static void columns(const Tokens<T>& tokens, std::int64_t dim, Word* staging, Word* dst) {
    const std::int64_t num = words(dim), stride = round_up(num, kCell);
    rows(tokens, kTile, dim, stride, staging);
    transpose(staging, stride, kTile, num, dst, kTile);
  }

  // dst[j][i] = src[i][j] for i < rows (a multiple of 16), j < columns; reads whole vectors of src.
  static void transpose(const Word* src, std::int64_t src_stride, std::int64_t num_rows,
                        std::int64_t columns, Word* dst, std::int64_t dst_stride) {
    for (std::int64_t i = 0; i < num_rows; i += L)
      for (std::int64_t j = 0; j < columns; j += L) {
        typename V::F block[L];
#pragma GCC unroll 16
        for (int r = 0; r < L; ++r) block[r] = V::load(src + (i + r) * src_stride + j);
        V::transpose(block);
        if (j + L <= columns) {
#pragma GCC unroll 16
          for (int r = 0; r < L; ++r) V::store(dst + (j + r) * dst_stride + i, block[r]);
        } else {
          for (int r = 0; r < columns - j; ++r) V::store(dst + (j + r) * dst_stride + i, block[r]);
        }
      }
  }

  static void store_row(const Word* src, std::int64_t dim, T* dst) {
    if constexpr (sizeof(T) == 4)
      std::memcpy(dst, src, static_cast<std::size_t>(dim) * 4);
    else
      narrow_row(src, dim, dst);
  }
};

}  // namespace
}  // namespace lamina::cpu
