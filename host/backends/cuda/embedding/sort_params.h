// The arguments of the sorting kernels.
#pragma once

#include <cstdint>

#include "backends/cuda/gpu/address.h"

namespace lamina::cuda {

// Shape of the tiles of a sort: each warp of a block sorts kSortRounds groups of 32 items.
inline constexpr int kSortThreads = 256;
inline constexpr int kSortWarps = kSortThreads / 32;
inline constexpr int kSortRounds = 8;
inline constexpr int kSortTile = kSortThreads * kSortRounds;
// Keys have up to this many bits per pass, so that the counts of all warps fit into 32 KiB.
inline constexpr int kMaxSortBits = 10;

// One pass of a stable radix sort: sorts by `bits` bits of the keys, from bit `shift` on.
struct SortParams {
  gpu::Address keys;    // i32[count]; a key outside of [0, limit) counts as `limit`
  gpu::Address places;  // i32[count]; null: 0, 1, 2, ...
  gpu::Address counts;  // i32[bins, tiles]: keys of each bin in a tile, then in the tiles before
  gpu::Address totals;  // i32[bins]
  gpu::Address sorted_keys;    // i32[count]; null: not wanted
  gpu::Address sorted_places;  // i32[count]
  gpu::Address starts;         // i32[limit + 1]; null: not wanted. The first position of each bin.
  std::int32_t count;
  std::int32_t limit;
  std::int32_t tiles;
  int shift;
  int bits;
};

// Finds the first position of each key in sorted keys.
struct SortedStartsParams {
  gpu::Address keys;    // i32[count], sorted
  gpu::Address starts;  // i32[num_starts]: of keys 0, 1, 2, ...
  std::int32_t count;
  std::int32_t num_starts;
};

}  // namespace lamina::cuda
