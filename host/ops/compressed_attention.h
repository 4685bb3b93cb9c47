// Parts of compressed_attention that its form over decode state also uses.
#pragma once

#include "ops/op.h"

namespace lamina::ops {

// Selects the k entries with the best scores[B, T, W] among those with seen i32[B, T, W] = 1; ties
// go to the lower index. Returns i32[B, T, W] with 1 for at least those; unseen entries may also be
// 1.
Tensor best(Tensor scores, Tensor seen, std::int64_t k);

// The same as numbers: ids i32[B, T, k] of entries, best first, and seen i32[B, T, k] with 1 for
// visible ones. k is at most W.
struct Best {
  Tensor ids, seen;
};
Best best_of(Tensor scores, Tensor seen, std::int64_t k);

struct RowScores {
  double scale = 0;     // 0 = 1 / sqrt(D)
  double soft_cap = 0;  // 0 = none
};
// Returns attention of q[B, T, N, D] to rows[B, S, D] as keys and values of one head, where seen
// i32[B, T, S] is 1; sinks may be null.
Tensor attend_to_rows(Tensor q, Tensor rows, Tensor seen, Tensor sinks, const RowScores& o);

// Counts the products with the tokens of the window, and with compressed entries of windows that
// have ended: with scores only with the selected ones.
double compressed_attention_flops(const NodeView& n, const WorkContext& work, bool scores);

}  // namespace lamina::ops
