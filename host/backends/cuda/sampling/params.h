// Parameters of the kernels that sampling reads its tokens from.
#pragma once

#include <cstdint>

#include "backends/cuda/gpu/address.h"

namespace lamina::cuda {

// Every block of the first kernel takes kPartIds ids of a row, kIdsPerThread of each thread. The
// grid is [parts, rows].
inline constexpr int kSamplingThreads = 256;
inline constexpr int kIdsPerThread = 16;
inline constexpr int kPartIds = kSamplingThreads * kIdsPerThread;
// The most tokens that likeliest_tokens selects: a thread for each.
inline constexpr int kMostLikeliest = kSamplingThreads;

// logits f32[rows, width]; largest f32[rows, parts]: of each part.
struct SamplingRows {
  gpu::Address logits, temperature, largest;
  int width, parts;
};

struct LikeliestParams {
  SamplingRows rows;
  gpu::Address weights;              // f64[rows, parts], relative to the largest of the part
  gpu::Address keys;                 // u64[rows, parts, k]: the first k keys of each part
  gpu::Address values, ids, weight;  // the results
  int k;
};

struct AtDrawParams {
  SamplingRows rows;
  gpu::Address sums;  // f64[rows, parts, kIdsPerThread]: weights of groups, relative likewise
  gpu::Address draws;
  gpu::Address values, first, before, row_largest, weight;  // the results
};

}  // namespace lamina::cuda
