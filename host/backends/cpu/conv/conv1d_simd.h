// The table of convolution functions of one instruction set. Private to conv1d*.cc.
#pragma once

#include "backends/cpu/conv/conv1d.h"

namespace lamina::cpu {

// Channels and tokens per task of the forward pass, channels per task of the backward pass.
inline constexpr std::int64_t kConvChannels = 256, kConvTokens = 256, kConvGradChannels = 64;

struct Conv1dTask {
  std::int64_t b;       // forward only: the row
  std::int64_t c0, c1;  // channels
  std::int64_t t0, t1;  // forward only: tokens
};

struct Conv1dFunctions {
  // scratch: (width + reach) * kConvChannels floats.
  void (*forward)(const Conv1dForward& p, const Conv1dTask& task, float* scratch);
  // Computes all rows and tokens. scratch: (2 * width + tokens + 1) * kConvGradChannels floats.
  void (*backward)(const Conv1dBackward& p, const Conv1dTask& task, float* scratch);

  static const Conv1dFunctions avx512, avx2, portable;
};

}  // namespace lamina::cpu
