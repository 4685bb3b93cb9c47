// The arguments of the kernels of the cross-entropy.
#pragma once

#include <cstdint>

#include "backends/cuda/gpu/address.h"

namespace lamina::cuda {

// The sums over the logits of a row so far, after scale, bias and soft cap.
struct LossRow {
  float max;     // the largest logit
  float sum;     // of exp(logit - max)
  float target;  // the label's logit; 0 if the label is outside of the vocabulary
  float total;   // of the logits
};

// A block of rows of products x w^T, and how they become logits. Rows are `stride` elements apart,
// a multiple of 8, and so is the first column.
struct LogitsOfRows {
  gpu::Address products;  // f32[num_rows, stride], of columns [first_column, + num_columns)
  gpu::Address bias;      // f32[vocabulary]; null: none
  gpu::Address labels;    // i32[num_rows]; negative: the row does not count
  gpu::Address rows;      // LossRow[num_rows]
  std::int64_t num_rows;
  std::int64_t stride;
  std::int64_t first_column;
  std::int64_t num_columns;
  float scale;
  float soft_cap;  // 0: none
};

struct LossTileParams {
  LogitsOfRows logits;
  bool first;     // begins the sums of the rows; otherwise adds to them
  bool all_rows;  // also rows that do not count
};

// The results of rows whose sums are complete.
struct LossSumsParams {
  gpu::Address labels;      // i32[num_rows]
  gpu::Address rows;        // LossRow[num_rows]
  gpu::Address token_loss;  // f32[num_rows]; null: not wanted
  gpu::Address lse;         // likewise
  gpu::Address sums;        // f64[3]: of the blocks of rows so far
  gpu::Address results[3];  // f32[]: loss, z_loss, uniform_loss; null: not wanted
  std::int64_t num_rows;
  std::int64_t vocabulary;
  bool first;  // block of rows
};

// Computes the sums of rows that count, and replaces the products of all columns by their
// gradients, as T at the beginning of each row.
struct LossGradientParams {
  LogitsOfRows logits;
  gpu::Address dloss;          // f32[]
  gpu::Address dz_loss;        // f32[]
  gpu::Address duniform_loss;  // f32[]; null: 0
  gpu::Address dtoken_loss;    // f32[num_rows]; null: 0
};

// Sums of the gradients of each column.
struct LossBiasParams {
  gpu::Address gradients;  // T[num_rows, stride]
  gpu::Address dbias;      // f32[vocabulary]
  std::int64_t num_rows;
  std::int64_t stride;  // in elements of T
  std::int64_t vocabulary;
  float scale;  // that the gradients include, and the bias is added after
  bool first;   // sets dbias; otherwise adds to it
};

// Threads of a block at most, and columns that one has in each step.
inline constexpr int kLossThreads = 512;
inline constexpr int kLossColumns = 8;

}  // namespace lamina::cuda
