// The arguments of the kernels of windows of tokens.
#pragma once

#include <cstdint>

#include "backends/cuda/gpu/address.h"

namespace lamina::cuda {

struct ExtendWindowParams {
  gpu::Address window;      // [batch, kept, row_units]
  gpu::Address x;           // [batch, tokens, row_units]
  gpu::Address start;       // i32[batch]; 0: the window counts as zeros
  gpu::Address count;       // i32[batch]: valid tokens of x
  gpu::Address window_out;  // [batch, kept, row_units]; may be window
  gpu::Address extended;    // [batch, kept + tokens, row_units]
  std::int64_t batch;
  std::int64_t kept;
  std::int64_t tokens;
  std::int64_t row_units;  // a unit is one memory access of a thread: units.h
};

struct WindowEndsParams {
  gpu::Address positions;  // i32[batch, tokens]
  gpu::Address ends;       // i32[batch, windows]; null: not wanted
  gpu::Address starts;     // likewise
  std::int64_t tokens;
  std::int64_t windows;
  std::int64_t ratio;
};

enum class BiasType : std::int32_t { f32, bf16, f16, f64 };

// W: the wide type of the values.
struct WindowPoolParams {
  gpu::Address values;  // [batch, tokens, channels]
  gpu::Address gates;   // likewise
  gpu::Address bias;    // [ratio, channels]
  gpu::Address ends;    // i32[batch, windows]
  gpu::Address starts;  // likewise
  gpu::Address y;       // [batch, windows, width]
  std::int64_t batch;
  std::int64_t tokens;
  std::int64_t channels;
  std::int64_t windows;
  std::int64_t width;  // channels, or half of them with overlap
  std::int64_t ratio;
  BiasType bias_type;
  bool overlap;
};

struct WindowPoolGradParams {
  WindowPoolParams pool;  // without y
  gpu::Address dy;        // [batch, windows, width]
  gpu::Address dvalues;   // [batch, tokens, channels]; null: not wanted
  gpu::Address dgates;    // likewise
  gpu::Address dbias;     // f32[ratio, channels], or f64; null: not wanted
  gpu::Address rising;    // i32[batch]: 1 if the ends of the row rise and unused ones come last
  gpu::Address top;       // W[batch, windows, width]: the largest gate of each channel
  gpu::Address scale;     // likewise: 1 / sum of exp(gate - top)
  gpu::Address mean;      // likewise: the result
  gpu::Address partial_dbias;  // W[num_parts, ratio, channels]
  std::int64_t part;           // windows of all rows that a partial sum has
  std::int64_t num_parts;
  bool dbias_is_f64;
};

}  // namespace lamina::cuda
