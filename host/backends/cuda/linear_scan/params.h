// Parameters of the kernels of linear_scan, its gradient and its step.
#pragma once

#include <cstdint>

#include "backends/cuda/gpu/typed_address.h"

namespace lamina::cuda {

// Channels of a block, one per lane, and tokens per thread. The warps of a block have consecutive
// tokens: its threads together a tile.
inline constexpr int kLinearChannels = 32, kLinearTokens = 8, kLinearMostWarps = 32;

struct LinearScanParams {
  std::int64_t batch, tokens, channels;
  gpu::TypedAddress a, b,
      y;  // [batch, tokens, channels]; y of b's type, may be a or b, null: not written
  gpu::Address segments;  // [batch, tokens], or null: a new segment resets the state
  // The step. All null without a state; both states may be the same memory.
  gpu::Address state, new_state;  // f32 [batch, channels]
  gpu::Address start, count;      // [batch]
  gpu::Address saved;  // f32 [batch, tiles, channels], or null: receives the state before each tile
};

struct LinearScanGradParams {
  std::int64_t batch, tokens, channels;
  gpu::TypedAddress a, b, dy, da, db;
  gpu::Address segments;
  gpu::Address saved;  // from a forward pass with as many warps per block
};

}  // namespace lamina::cuda
