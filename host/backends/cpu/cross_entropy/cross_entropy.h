// Cross-entropy of rows of logits that are given in tiles of the vocabulary, so that all logits
// never need to exist at once (online softmax: Milakov & Gimelshein 2018).
//
//   CrossEntropyRows rows = {.labels = labels, .num_rows = n, .max = max, .sum = sum,
//                            .target = target};
//   cross_entropy_begin(rows);
//   for (each tile) cross_entropy_add_tile(rows, tile);
//
// For gradients, one tile has all columns:
//
//   cross_entropy_with_gradient(rows, tile, {.scale = 1 / count, .z_loss = z_loss, ...});
//
// The loss of a row is lse - logit[label] + z_loss lse^2 + uniform (lse - mean(logits)), lse = ln
// sum exp(logits), after the soft cap, if any. Rows labelled kIgnoredLabel do not count. Nothing is
// allocated; results depend on the tiles, but not on the number of threads. [any thread]
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace lamina::cpu {

inline constexpr std::int32_t kIgnoredLabel = -100;

// The state of rows between tiles; the caller owns the arrays.
struct CrossEntropyRows {
  const std::int32_t* labels;  // [num_rows]: within the vocabulary, or kIgnoredLabel
  std::int64_t num_rows;
  float* max;              // [num_rows] largest logit so far
  float* sum;              // [num_rows] sum of exp(logit - max)
  float* target;           // [num_rows] the label's logit
  float* total = nullptr;  // [num_rows], optional: the sum of the logits
};

// Columns [first_column, first_column + num_columns) of the logits of all rows.
struct CrossEntropyTile {
  const void* logits;
  DType dtype;              // f32 or bf16
  std::int64_t row_stride;  // in elements
  std::int64_t first_column;
  std::int64_t num_columns;
  float soft_cap = 0;  // 0: none; else logits become cap tanh(logits / cap)
};

struct CrossEntropyGradient {
  float scale;  // of all gradients, eg: 1 / count
  float z_loss = 0;
  float uniform = 0;
  const float* row_scale = nullptr;  // [num_rows], optional: of lse - logit[label] of each row
  void* dlogits;  // [num_rows, vocabulary]; may begin where the tile's logits do if those are
                  // f32 and rows are as many bytes apart
  DType dtype;    // f32 or bf16
  std::int64_t row_stride;
  std::int64_t vocabulary = 0;  // for `uniform`
};

void cross_entropy_begin(const CrossEntropyRows& rows);
void cross_entropy_add_tile(const CrossEntropyRows& rows, const CrossEntropyTile& tile);
// Adds a tile with all columns, and computes the gradients of its logits as given (before the soft
// cap). Each row is finished while its logits are in the caches.
void cross_entropy_with_gradient(const CrossEntropyRows& rows, const CrossEntropyTile& tile,
                                 const CrossEntropyGradient& gradient);

// The functions of one instruction set, for rows [begin, end). Private to this folder.
struct CrossEntropyFunctions {
  void (*add_tile)(const CrossEntropyRows& rows, const CrossEntropyTile& tile, std::int64_t begin,
                   std::int64_t end);
  void (*gradient)(const CrossEntropyRows& rows, const CrossEntropyTile& tile,
                   const CrossEntropyGradient& gradient, std::int64_t begin, std::int64_t end);

  static const CrossEntropyFunctions avx512, avx2, portable;
};

}  // namespace lamina::cpu
