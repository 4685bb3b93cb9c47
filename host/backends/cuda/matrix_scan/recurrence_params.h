// Parameters of linear attention token by token: matrix_scan and gated_delta_rule.
#pragma once

#include <cstdint>

#include "backends/cuda/gpu/typed_address.h"

namespace lamina::cuda {

// A thread has kStateRows rows (key channels) of kStateColumns columns (value channels) of the
// state; `lanes` neighbouring threads have all rows of these columns.
inline constexpr int kStateRows = 8, kStateColumns = 4, kMostStateRows = 32 * kStateRows;
// Tokens whose operands are in shared memory at a time, and the rows of keys of each: q, k, decay,
// a and b.
inline constexpr int kTokenTile = 16, kKeyRows = 5;

// The term of rank one in a_t outer (R_t^T b_t): absent, any, or the delta rule's, a = -k.
enum class RankOne : std::int32_t { none, any, delta };

struct Recurrence {
  std::int64_t batch, tokens, heads;
  std::int64_t key_width, value_width;
  std::int64_t blocks_per_head, columns_per_block;
  int lanes;  // a power of two, lanes * kStateRows >= key_width
  RankOne rank_one;
  std::int32_t decay_first, read_before;
  gpu::TypedAddress v, y;  // [batch, tokens, heads, value_width]
  gpu::Address segments;   // [batch, tokens], or null: a new segment resets the state
  // The step. All null without a state; both states may be the same memory.
  gpu::Address state, new_state;  // f32 [batch, heads, key_width, value_width]
  gpu::Address start, count;      // [batch]

  // The gradient computes the heads of all rows in passes, here from first_head on: states before
  // each chunk of tokens (a multiple of kTokenTile), and the gradients of the states after each.
  std::int64_t chunk, num_chunks, first_head;
  gpu::TypedAddress dy;
  gpu::Address states, flows;  // f32 [heads, num_chunks, value_width, lanes * kStateRows]
};

}  // namespace lamina::cuda
