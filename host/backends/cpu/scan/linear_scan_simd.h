// The table of linear scan functions of one instruction set. Private to linear_scan*.cc.
#pragma once

#include "backends/cpu/scan/linear_scan.h"

namespace lamina::cpu {

// Channels of one task: forward a kilobyte of each row of f32; backward less, since it keeps the
// states of all tokens.
inline constexpr std::int64_t kScanChannels = 256, kScanGradChannels = 128;

// Channels [c0, c1) of row b.
struct LinearScanTask {
  std::int64_t b, c0, c1;
};

struct LinearScanFunctions {
  void (*forward)(const LinearScanForward& p, const LinearScanTask& task);
  // scratch: tokens * kScanGradChannels floats.
  void (*backward)(const LinearScanBackward& p, const LinearScanTask& task, float* scratch);

  static const LinearScanFunctions avx512, avx2, portable;
};

}  // namespace lamina::cpu
