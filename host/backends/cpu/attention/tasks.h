// Sizes and tasks of the attention kernels.
//
// All query heads of a key head share its keys, so a "row" is a (token, head of the group) pair:
// row r is token r / group, head r % group. Internal to each file that includes it.
#pragma once

#include "backends/cpu/attention/attention.h"
#include "backends/cpu/threads/scratch.h"
#include "backends/cpu/threads/threads.h"

namespace lamina::cpu {
namespace {

constexpr std::int64_t kTile = 64;  // rows of a block, keys of a tile
constexpr std::int64_t kCell = 16;  // rows and keys of a cell
constexpr std::int64_t kCells = kTile / kCell;
constexpr float kMasked = -1e30f;  // a logit of a masked pair
constexpr float kEmpty = -1e29f;   // a maximum below this means that no key was allowed
constexpr float kLog2E = 1.44269504088896341f, kLn2 = 0.693147180559945309f;

constexpr std::int64_t min(std::int64_t a, std::int64_t b) { return a < b ? a : b; }
constexpr std::int64_t max(std::int64_t a, std::int64_t b) { return a > b ? a : b; }

// Sizes that all tasks of one run share; with kPairs words have two bf16.
struct Sizes {
  std::int64_t group, rows, blocks;  // of one (batch row, key head)
  std::int64_t qk_words, v_words;    // of one token
  std::int64_t qk_width, v_width;    // dims, rounded up to whole cells
};

inline Sizes sizes_of(const AttentionSpec& spec, bool pairs) {
  Sizes s;
  s.group = spec.heads / spec.kv_heads;
  s.rows = spec.q_tokens * s.group;
  s.blocks = divide_up(s.rows, kTile);
  s.qk_words = pairs ? divide_up(spec.qk_dim, 2) : spec.qk_dim;
  s.v_words = pairs ? divide_up(spec.v_dim, 2) : spec.v_dim;
  s.qk_width = round_up(spec.qk_dim, kCell);
  s.v_width = round_up(spec.v_dim, kCell);
  return s;
}

// Logits in units of log2: score * q . k, or with a soft cap cap * tanh(score * q . k).
struct LogitFactors {
  float score, cap;  // cap 0: none
};

inline LogitFactors logit_factors(const AttentionSpec& spec) {
  return {static_cast<float>(spec.soft_cap != 0 ? spec.scale / spec.soft_cap : spec.scale * kLog2E),
          static_cast<float>(spec.soft_cap * kLog2E)};
}

// Row r as (token, head of the group); moves from row to row without divisions.
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

}  // namespace
}  // namespace lamina::cpu
