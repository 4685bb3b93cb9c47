// Causal depthwise convolution over time: forward, over decode state, and backward.
//
//   conv1d_forward({.dtype = DType::bf16, .batch = 1, .tokens = 512, .channels = 8192, .width = 4,
//                   .x = x, .w = w, .y = y, .silu = true, .workspace = scratch});
//
// Values are f32 or bf16 in memory; arithmetic is f32, and results are rounded once. Channels are
// distributed over threads, so that sums have one order for any number of threads. Nothing is
// allocated.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"

namespace lamina::cpu {

struct Conv1d {
  DType dtype;  // of x, y, dy, dx and window: f32 or bf16
  std::int64_t batch, tokens, channels;
  std::int64_t width;  // taps K
  std::int64_t dilation = 1;
  const void* x = nullptr;     // [batch, tokens, channels]
  const void* w = nullptr;     // [channels, width]
  const void* bias = nullptr;  // [channels], optional
  DType w_dtype = DType::f32, bias_dtype = DType::f32;
  const std::int32_t* segments =
      nullptr;        // [batch, tokens], optional: tokens of other segments count as zeros
  bool silu = false;  // y = silu(sum), else the sum

  std::int64_t reach() const { return (width - 1) * dilation; }
};

struct Conv1dForward : Conv1d {
  void* y = nullptr;
  // Decode state: the reach() tokens before x, newest last. If given, start and count are too.
  void* window = nullptr;               // [batch, reach, channels], rewritten
  const std::int32_t* start = nullptr;  // [batch]: 0 = the window counts as zeros
  const std::int32_t* count = nullptr;  // [batch]: tokens that enter the window
  float* workspace = nullptr;           // conv1d_workspace_bytes
};
void conv1d_forward(const Conv1dForward& p);

struct Conv1dBackward : Conv1d {
  const void* dy = nullptr;
  void* dx = nullptr;
  float* dw = nullptr;     // [channels, width], optional
  float* dbias = nullptr;  // [channels], optional
  float* workspace = nullptr;
};
void conv1d_backward(const Conv1dBackward& p);

// Returns the bytes for the current number of threads. REQUIRES: runs have no larger pool.
std::size_t conv1d_forward_workspace_bytes(const Conv1d& p);
std::size_t conv1d_backward_workspace_bytes(const Conv1d& p);

// The rest is private to this folder.

// Channels and tokens per task of the forward pass, channels per task of the backward pass.
inline constexpr std::int64_t kConvChannels = 256, kConvTokens = 256, kConvGradChannels = 64;

struct Conv1dTask {
  std::int64_t b;       // forward only: the row
  std::int64_t c0, c1;  // channels
  std::int64_t t0, t1;  // forward only: tokens
};

// The functions of one instruction set.
struct Conv1dFunctions {
  // scratch: (width + reach) * kConvChannels floats.
  void (*forward)(const Conv1dForward& p, const Conv1dTask& task, float* scratch);
  // Computes all rows and tokens. scratch: (2 * width + tokens + 1) * kConvGradChannels floats.
  void (*backward)(const Conv1dBackward& p, const Conv1dTask& task, float* scratch);

  static const Conv1dFunctions avx512, avx2, portable;
};

}  // namespace lamina::cpu
