// Distributes the channels (and, forward, rows and tokens) of a convolution over threads.
#include "backends/cpu/conv/conv1d.h"

#include <algorithm>

#include "backends/cpu/conv/conv1d_simd.h"
#include "backends/cpu/threads/isa.h"
#include "backends/cpu/threads/scratch.h"
#include "backends/cpu/threads/threads.h"
#include "core/error.h"

namespace lamina::cpu {
namespace {

const Conv1dFunctions& functions() { return isa_table<Conv1dFunctions>(); }

std::int64_t forward_scratch(const Conv1d& p) { return (p.width + p.reach()) * kConvChannels; }
std::int64_t backward_scratch(const Conv1d& p) {
  return (2 * p.width + p.tokens + 1) * kConvGradChannels;
}
std::size_t for_all_threads(std::int64_t floats) {
  return static_cast<std::size_t>(floats * num_threads()) * sizeof(float);
}

void check(const Conv1d& p) {
  LAMINA_ASSERT(p.dtype == DType::f32 || p.dtype == DType::bf16);
  LAMINA_ASSERT(p.width >= 1 && p.dilation >= 1);
}

}  // namespace

std::size_t conv1d_forward_workspace_bytes(const Conv1d& p) {
  return for_all_threads(forward_scratch(p));
}
std::size_t conv1d_backward_workspace_bytes(const Conv1d& p) {
  return for_all_threads(backward_scratch(p));
}

void conv1d_forward(const Conv1dForward& p) {
  check(p);
  const std::int64_t channel_blocks = divide_up(p.channels, kConvChannels);
  // All tokens read a window before it is rewritten, so its row is one task.
  const std::int64_t step = p.window != nullptr ? std::max<std::int64_t>(1, p.tokens) : kConvTokens;
  const std::int64_t token_blocks = p.window != nullptr ? 1 : divide_up(p.tokens, step);
  const std::int64_t scratch = forward_scratch(p);
  parallel_tasks(p.batch * channel_blocks * token_blocks, [&](std::int64_t i, int thread) {
    const std::int64_t t0 = i % token_blocks * step;
    const std::int64_t c0 = i / token_blocks % channel_blocks * kConvChannels;
    const Conv1dTask task{.b = i / token_blocks / channel_blocks,
                          .c0 = c0,
                          .c1 = std::min(p.channels, c0 + kConvChannels),
                          .t0 = t0,
                          .t1 = std::min(p.tokens, t0 + step)};
    functions().forward(p, task, p.workspace + thread * scratch);
  });
}

void conv1d_backward(const Conv1dBackward& p) {
  check(p);
  const std::int64_t scratch = backward_scratch(p);
  parallel_tasks(divide_up(p.channels, kConvGradChannels), [&](std::int64_t i, int thread) {
    const std::int64_t c0 = i * kConvGradChannels;
    const Conv1dTask task{
        .b = 0, .c0 = c0, .c1 = std::min(p.channels, c0 + kConvGradChannels), .t0 = 0, .t1 = 0};
    functions().backward(p, task, p.workspace + thread * scratch);
  });
}

}  // namespace lamina::cpu
