// The arguments of the kernels of embedding and of lists of rows.
#pragma once

#include <cstdint>

#include "backends/cuda/gpu/address.h"

namespace lamina::cuda {

// Copies rows by number: to[i] = from[ids[i] / divide]; zeros if that is outside of [0, num_rows).
struct CopyRowsParams {
  gpu::Address from;  // [num_rows, row_units]
  gpu::Address ids;   // i32[count]
  gpu::Address to;    // [count, row_units]
  std::int64_t num_rows;
  std::int64_t count;
  std::int64_t divide;
  std::int64_t row_units;  // a unit is one memory access of a thread: units.h
};

// Likewise, with divide 1, from a table that is stored in blocks.
struct WidenRowsParams {
  gpu::Address table;  // [num_rows, width], whole blocks per row
  gpu::Address ids;    // i32[count]
  gpu::Address to;     // [count, width]
  std::int64_t num_rows;
  std::int64_t count;
  std::int64_t width;  // a multiple of 8
};

inline constexpr int kListThreads = 256;
inline constexpr int kListRounds = 8;
inline constexpr int kListTile = kListThreads * kListRounds;  // keys of a block

// Lists the different keys among sorted keys.
struct ListKeysParams {
  gpu::Address keys;         // i32[count], sorted; `limit` marks keys that belong to no row
  gpu::Address tile_counts;  // i32[tiles]
  gpu::Address starts;  // i32[count + 1]: the first position of each key, then the end of the last
  gpu::Address ids;     // i32[count], the keys of the list
  gpu::Address used;    // i32[1], their number
  std::int32_t count;
  std::int32_t limit;
  std::int32_t tiles;
};

inline constexpr int kSumThreads = 256;
inline constexpr int kSumWarps = kSumThreads / 32;
// A warp adds up the rows of an id, or a block if there are more rows than this.
inline constexpr int kLongGroup = 64;

// Adds up the rows of each id of a list.
struct SumRowsParams {
  gpu::Address dy;      // [.., width]
  gpu::Address places;  // i32[count], the rows of dy, sorted by id
  gpu::Address starts;  // i32[slots + 1]
  gpu::Address ids;     // i32[slots]
  gpu::Address used;    // i32[1]: slots in use
  gpu::Address sums;    // [.., width]
  bool add;             // adds to row `id` of sums; otherwise writes row `slot`
  std::int64_t width;
};

// Sets the slots of a list from the used ones on to the id `limit` and zeros.
struct ClearSlotsParams {
  gpu::Address used;  // i32[1]
  gpu::Address ids;   // i32[slots]
  gpu::Address sums;  // [slots, width]
  std::int32_t slots;
  std::int32_t limit;
  std::int64_t width;
};

// Merges two lists of rows.
struct MergeListsParams {
  gpu::Address ids;          // i32[slots], rising; unused ones are `limit`
  gpu::Address sums;         // [slots, width]
  gpu::Address more_ids;     // i32[more_slots]
  gpu::Address more;         // [more_slots, width]
  gpu::Address tile_counts;  // i32[tiles]: ids of the second list that are not in the first
  gpu::Address new_before;   // i32[more_slots + 1]: such ids before each slot
  gpu::Address from;         // i32[slots]: the slot of the first list that is the result's, or -1
  gpu::Address from_more;    // i32[slots]: likewise of the second
  gpu::Address ids_out;      // i32[slots]
  gpu::Address sums_out;     // [slots, width]
  std::int32_t slots;
  std::int32_t more_slots;
  std::int32_t limit;
  std::int32_t tiles;  // of slots 0 to more_slots
  std::int64_t width;
};

}  // namespace lamina::cuda
