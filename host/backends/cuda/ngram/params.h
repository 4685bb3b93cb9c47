// The arguments of the kernels of n-grams.
#pragma once

#include <cstdint>

#include "backends/cuda/gpu/address.h"

namespace lamina::cuda {

inline constexpr int kMaxNgram = 16;
inline constexpr int kMaxNgramHeads = 256;

// Rows of Engram's tables for the n-grams that end at each token.
struct NgramParams {
  gpu::Address tokens;       // i32[batch, num_tokens]
  gpu::Address table;        // i32[entries]
  gpu::Address segments;     // i32[batch, num_tokens]; null: n-grams cross documents
  gpu::Address rows;         // i32[batch, num_tokens, heads]; null: not wanted
  gpu::Address history;      // i32[batch, length - 1]: the ids before the call; null: none
  gpu::Address history_out;  // likewise, after the call; null: not wanted
  gpu::Address start;        // i32[batch]
  gpu::Address count;        // i32[batch]
  std::int64_t batch;
  std::int64_t num_tokens;
  std::int64_t entries;
  std::int32_t pad;
  std::int32_t length;  // tokens of the longest n-gram
  std::int32_t heads;   // tables, the same number for each length
  std::uint32_t multipliers[kMaxNgram];
  std::int64_t sizes[kMaxNgramHeads];  // rows of each table
};

}  // namespace lamina::cuda
