// Arguments of the kernels of rope_table, rotate and rotate_write.
#pragma once

#include <cstdint>

#include "backends/cuda/gpu/address.h"
#include "backends/cuda/gpu/divisor.h"
#include "backends/cuda/layout/cache_slots.h"
#include "backends/cuda/stored/params.h"

namespace lamina::cuda {

// Frequencies that the parameters of a kernel have room for; longer lists take several launches.
inline constexpr int kMaxFrequencies = 128;

// Cosines and sines of position * frequency for frequencies [first, first + count) of `half`.
struct RopeTableParams {
  gpu::Address positions;   // i32[axes, tokens]
  gpu::Address of_rows;     // f32[rows, half]: frequencies of each row; null: those below
  gpu::Address cos, sin;    // f32[tokens, half]
  std::int64_t num_tokens;  // of all rows
  std::int64_t tokens_per_row;
  int half, first, count;
  float factor;  // multiplies both
  float frequencies[kMaxFrequencies];
  std::uint8_t axes[kMaxFrequencies];  // the row of positions for each frequency
};

// Frequencies [first, first + count) of rows whose rotation depends on their largest position.
struct RopeRowsParams {
  gpu::Address positions;  // i32[rows, tokens_per_row]
  gpu::Address of_rows;    // f32[rows, half]
  std::int64_t tokens_per_row;
  std::int64_t limit;  // longer rows are long
  int half, first, count;
  // Long rows have the frequencies `beyond`, or with dynamic scaling the frequencies of the base
  // theta (factor length / limit - (factor - 1))^exponent.
  bool is_dynamic;
  double theta, factor, exponent;
  int frequency_dim;
  float within[kMaxFrequencies];
  float beyond[kMaxFrequencies];
};

// Pairs of x[tokens, heads, width] rotated by their angles.
struct RotateParams {
  gpu::Address x, y;      // y may be x
  gpu::Address cos, sin;  // f32[tokens, half]
  std::int64_t num_tokens;
  int heads, width, half;
  float sign;  // of sines: -1 rotates back
};

// Rows x[tokens, heads, width] that are moved to y: to the same places, or to the slots of a cache.
struct MovedRows {
  gpu::Address x, y;  // y may be x; null: not wanted
  int heads, width;
  int half;   // pairs of a head that rotate; 0: none does
  int units;  // of a token: accesses of threads, or rows of warps
  bool is_cached;
  CacheSlots slots;
  RowKind kind;  // of y
};

// Keys, values and queries of the same tokens.
inline constexpr int kMostMovedRows = 3;
struct RotateWriteParams {
  MovedRows rows[kMostMovedRows];
  gpu::Address cos, sin;    // f32[tokens, half]; null if nothing rotates
  gpu::Address start;       // i32[batch]: the slot of the first token
  std::int64_t num_tokens;  // of all batches
  gpu::Divisor tokens;      // of a batch
  gpu::Divisor units;       // of a token, in all rows
};

}  // namespace lamina::cuda
