// y_t = a_t y_(t-1) + b_t in every channel: forward, over decode state, and backward.
//
//   linear_scan_forward({.batch = 1, .tokens = 512, .channels = 2560, .a = {a}, .b = {b}, .y =
//   {y}});
//
// Each number is read and written once, so that memory is the limit. Numbers are f32 or bf16 in
// memory; the recurrence is in f32. Nothing is allocated. Results do not depend on the number of
// threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/threads/numbers.h"

namespace lamina::cpu {

struct LinearScan {
  std::int64_t batch, tokens, channels;
  ConstNumbers a, b;  // [batch, tokens, channels]
  const std::int32_t* segments =
      nullptr;  // [batch, tokens], optional: a new segment resets the state
};

struct LinearScanForward : LinearScan {
  Numbers y;  // of b's type
  // Decode state. If given, start and count are too.
  float* state = nullptr;               // [batch, channels], rewritten
  const std::int32_t* start = nullptr;  // [batch]: 0 = the state counts as zeros
  const std::int32_t* count = nullptr;  // [batch]: later tokens get zeros and change nothing
};
void linear_scan_forward(const LinearScanForward& p);

struct LinearScanBackward : LinearScan {
  ConstNumbers dy;
  Numbers da, db;              // of the types of a and b
  float* workspace = nullptr;  // linear_scan_backward_workspace_bytes
};
void linear_scan_backward(const LinearScanBackward& p);

// Returns the bytes for the current number of threads. REQUIRES: runs have no larger pool.
std::size_t linear_scan_backward_workspace_bytes(const LinearScan& p);

// The rest is private to this folder.

// Channels of one task: forward a kilobyte of each row of f32; backward less, since it keeps the
// states of all tokens.
inline constexpr std::int64_t kScanChannels = 256, kScanGradChannels = 128;

// Channels [c0, c1) of row b.
struct LinearScanTask {
  std::int64_t b, c0, c1;
};

// The functions of one instruction set.
struct LinearScanFunctions {
  void (*forward)(const LinearScanForward& p, const LinearScanTask& task);
  // scratch: tokens * kScanGradChannels floats.
  void (*backward)(const LinearScanBackward& p, const LinearScanTask& task, float* scratch);

  static const LinearScanFunctions avx512, avx2, portable;
};

}  // namespace lamina::cpu
