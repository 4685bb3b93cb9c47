// Parameters of the kernels of causal_conv1d, its gradient and its step.
#pragma once

#include <cstdint>

#include "backends/cuda/gpu/typed_address.h"

namespace lamina::cuda {

// Taps of the kernels that keep them in registers.
inline constexpr int kConvTaps = 4;
// Tokens per thread forward, and per tile of a row backward.
inline constexpr int kConvTokens = 16, kConvGradTokens = 64;

struct Conv1dParams {
  std::int64_t batch, tokens, channels;
  std::int64_t reach;  // (width - 1) * dilation
  std::int64_t dilation;
  int width;               // taps
  int silu;                // y = silu(sum), else the sum
  gpu::Address x;          // [batch, tokens, channels]
  gpu::TypedAddress w;     // [channels, width]
  gpu::TypedAddress bias;  // [channels], or null
  gpu::Address segments;   // [batch, tokens], or null: tokens of other segments count as zeros
};

struct Conv1dForwardParams {
  Conv1dParams conv;
  gpu::Address y;
  // The step: the reach() tokens before x, newest last, before and after the call. May be the same
  // memory. Null without a state.
  gpu::Address window, new_window;  // [batch, reach, channels]
  gpu::Address start, count;        // [batch]
};

struct Conv1dBackwardParams {
  Conv1dParams conv;
  gpu::Address dy, dx;
  gpu::Address dsum;  // f32 [batch, tokens, channels]: gradients of sums; null with few taps
  // Parts of dw and dbias are sums over consecutive tiles of all rows.
  std::int64_t num_parts, tiles_per_part;
  gpu::Address parts;      // f32 [num_parts, width + 1, channels]
  gpu::Address dw, dbias;  // f32, or null
};

}  // namespace lamina::cuda
