// Distributes rows and channels of a linear scan over threads.
#include "backends/cpu/scan/linear_scan.h"

#include <algorithm>

#include "backends/cpu/scan/linear_scan_simd.h"
#include "backends/cpu/threads/isa.h"
#include "backends/cpu/threads/threads.h"
#include "core/error.h"
#include "core/round_up.h"

namespace lamina::cpu {
namespace {

const LinearScanFunctions& functions() { return isa_table<LinearScanFunctions>(); }

template <typename Run>
void for_blocks(const LinearScan& p, std::int64_t width, const Run& run) {
  const std::int64_t blocks = divide_up(p.channels, width);
  parallel_tasks(p.batch * blocks, [&](std::int64_t i, int thread) {
    const std::int64_t c0 = i % blocks * width;
    run({.b = i / blocks, .c0 = c0, .c1 = std::min(p.channels, c0 + width)}, thread);
  });
}

void check(const LinearScan& p) {
  for (const ConstNumbers& x : {p.a, p.b})
    LAMINA_ASSERT(x.dtype == DType::f32 || x.dtype == DType::bf16);
}

}  // namespace

std::size_t linear_scan_backward_workspace_bytes(const LinearScan& p) {
  return static_cast<std::size_t>(p.tokens * kScanGradChannels * num_threads()) * sizeof(float);
}

void linear_scan_forward(const LinearScanForward& p) {
  check(p);
  LAMINA_ASSERT((p.state == nullptr) == (p.start == nullptr || p.count == nullptr));
  for_blocks(p, kScanChannels,
             [&](const LinearScanTask& task, int) { functions().forward(p, task); });
}

void linear_scan_backward(const LinearScanBackward& p) {
  check(p);
  for_blocks(p, kScanGradChannels, [&](const LinearScanTask& task, int thread) {
    functions().backward(p, task, p.workspace + thread * p.tokens * kScanGradChannels);
  });
}

}  // namespace lamina::cpu
