// Causal depthwise convolution, sixteen channels at a time.
#include <algorithm>
#include <cstring>

#include "backends/cpu/conv/conv1d.h"
#include "backends/cpu/simd/math.h"
#include "backends/cpu/simd/memory.h"

namespace lamina::cpu {
namespace {

// Sets to[j][c] = w[first channel + c, j]. kWidth: the number of taps, 0 if unknown at compile
// time.
template <DType kDtype, int kWidth>
void transpose_taps(const Conv1d& p, const Conv1dTask& task, std::int64_t stride, float* to) {
  const void* const w = p.w;
  const std::int64_t width = kWidth > 0 ? kWidth : p.width, first = task.c0 * width;
  const std::int64_t channels = task.c1 - task.c0;
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t j = 0; j < width; ++j)
      to[j * stride + c] = number_at(w, kDtype, first + c * width + j);
}

// Puts the taps of neighbouring channels side by side. One token of decoding does little else, so
// the loop is compiled for the type and the usual width.
void transpose_weights(const Conv1d& p, const Conv1dTask& task, std::int64_t stride, float* to) {
  if (p.w_dtype == DType::bf16)
    p.width == 4 ? transpose_taps<DType::bf16, 4>(p, task, stride, to)
                 : transpose_taps<DType::bf16, 0>(p, task, stride, to);
  else
    p.width == 4 ? transpose_taps<DType::f32, 4>(p, task, stride, to)
                 : transpose_taps<DType::f32, 0>(p, task, stride, to);
}

// True if the convolution joins tokens t and t - back of row b.
bool joined(const Conv1d& p, std::int64_t b, std::int64_t t, std::int64_t back) {
  if (p.segments == nullptr) return true;
  const std::int32_t* row = p.segments + b * p.tokens;
  return row[t] == row[t - back];
}

// Computes one token of a task: the sum over the taps, before the activation.
template <typename T>
struct Taps {
  const Conv1d& p;
  const Conv1dTask& task;
  const float* weights;
  std::int64_t stride;  // of weights and, in channels of the task, of window
  const float* window;  // the rows before the first token, or null: zeros

  // Reads, from channel c0 on, the element of the row that tap j of token t of row b multiplies;
  // zeros before the first token.
  LAMINA_SIMD Float read(std::int64_t b, std::int64_t t, std::int64_t j, std::int64_t i,
                         int count) const {
    const std::int64_t back = (p.width - 1 - j) * p.dilation;
    if (t >= back) {
      if (!joined(p, b, t, back)) return splat(0.0f);
      const T* x = static_cast<const T*>(p.x) + ((b * p.tokens + t - back) * p.channels + task.c0);
      return load_some(x + i, count);
    }
    if (window == nullptr) return splat(0.0f);
    return load_some(window + (p.reach() + t - back) * stride + i, count);
  }

  LAMINA_SIMD Float sum(std::int64_t b, std::int64_t t, std::int64_t i, int count) const {
    Float sum = splat(0.0f);
    for (std::int64_t j = 0; j < p.width; ++j)
      sum = fma(read(b, t, j, i, count), load_some(weights + j * stride + i, count), sum);
    if (p.bias == nullptr) return sum;
    return sum + (p.bias_dtype == DType::f32
                      ? load_some(static_cast<const float*>(p.bias) + task.c0 + i, count)
                      : load_some(static_cast<const bfloat16*>(p.bias) + task.c0 + i, count));
  }
};

template <typename T>
void forward(const Conv1dForward& p, const Conv1dTask& task, float* scratch) {
  const std::int64_t channels = task.c1 - task.c0, reach = p.reach();
  float* weights = scratch;
  float* before = scratch + p.width * kConvChannels;
  transpose_weights(p, task, kConvChannels, weights);
  T* window = static_cast<T*>(p.window);
  if (window != nullptr) window += task.b * reach * p.channels + task.c0;
  const bool reads_window = window != nullptr && p.start[task.b] != 0;
  // The window is rewritten below, so the part that the first tokens read is copied.
  if (reads_window)
    for (std::int64_t r = 0; r < reach; ++r)
      for_lanes(channels, [&](std::int64_t i, int count) {
        store_some(before + r * kConvChannels + i, load_some(window + r * p.channels + i, count),
                   count);
      });
  const Taps<T> taps{p, task, weights, kConvChannels, reads_window ? before : nullptr};
  for (std::int64_t t = task.t0; t < task.t1; ++t) {
    T* y = static_cast<T*>(p.y) + (task.b * p.tokens + t) * p.channels + task.c0;
    for_lanes(channels, [&](std::int64_t i, int count) {
      const Float sum = taps.sum(task.b, t, i, count);
      store_some(y + i, p.silu ? silu(sum) : sum, count);
    });
  }
  if (window == nullptr || p.count[task.b] <= 0) return;
  const std::int64_t valid = std::min<std::int64_t>(p.count[task.b], p.tokens);
  const T* x = static_cast<const T*>(p.x) + task.b * p.tokens * p.channels + task.c0;
  for (std::int64_t r = 0; r < reach; ++r) {
    const std::int64_t t = valid - reach + r;  // the token that this row keeps
    T* to = window + r * p.channels;
    if (t >= 0)
      std::memcpy(to, x + t * p.channels, static_cast<std::size_t>(channels) * sizeof(T));
    else
      for_lanes(channels, [&](std::int64_t i, int count) {
        const float* old = before + (reach + t) * kConvChannels + i;
        store_some(to + i, reads_window ? load_some(old, count) : splat(0.0f), count);
      });
  }
}

template <typename T>
void backward(const Conv1dBackward& p, const Conv1dTask& task, float* scratch) {
  constexpr std::int64_t kStride = kConvGradChannels;
  const std::int64_t channels = task.c1 - task.c0;
  float* weights = scratch;
  float* dw = weights + p.width * kStride;
  float* dbias = dw + p.width * kStride;
  float* dsum = dbias + kStride;  // [tokens]: gradients of the sums before the activation
  transpose_weights(p, task, kStride, weights);
  for (float* sum = dw; sum != dsum; ++sum) *sum = 0;
  const Taps<T> taps{p, task, weights, kStride, nullptr};
  for (std::int64_t b = 0; b < p.batch; ++b) {
    const std::int64_t first = b * p.tokens * p.channels + task.c0;
    for (std::int64_t t = 0; t < p.tokens; ++t)
      for_lanes(channels, [&](std::int64_t i, int count) {
        const T* dy = static_cast<const T*>(p.dy) + first + t * p.channels;
        Float d = load_some(dy + i, count);
        if (p.silu) d = d * silu_grad(taps.sum(b, t, i, count));
        store_some(dsum + t * kStride + i, d, count);
        store_some(dbias + i, load_some(dbias + i, count) + d, count);
        for (std::int64_t j = 0; j < p.width; ++j) {
          float* to = dw + j * kStride + i;
          store_some(to, fma(taps.read(b, t, j, i, count), d, load_some(to, count)), count);
        }
      });
    for (std::int64_t t = 0; t < p.tokens; ++t) {
      T* dx = static_cast<T*>(p.dx) + first + t * p.channels;
      for_lanes(channels, [&](std::int64_t i, int count) {
        Float sum = splat(0.0f);
        for (std::int64_t j = 0; j < p.width; ++j) {
          const std::int64_t back = (p.width - 1 - j) * p.dilation;
          if (t + back >= p.tokens || !joined(p, b, t + back, back)) continue;
          sum = fma(load_some(dsum + (t + back) * kStride + i, count),
                    load_some(weights + j * kStride + i, count), sum);
        }
        store_some(dx + i, sum, count);
      });
    }
  }
  for (std::int64_t c = 0; c < channels; ++c) {
    if (p.dbias != nullptr) p.dbias[task.c0 + c] = dbias[c];
    for (std::int64_t j = 0; p.dw != nullptr && j < p.width; ++j)
      p.dw[(task.c0 + c) * p.width + j] = dw[j * kStride + c];
  }
}

constexpr Conv1dFunctions kFunctions = {
    .forward =
        [](const Conv1dForward& p, const Conv1dTask& task, float* scratch) {
          p.dtype == DType::f32 ? forward<float>(p, task, scratch)
                                : forward<bfloat16>(p, task, scratch);
        },
    .backward =
        [](const Conv1dBackward& p, const Conv1dTask& task, float* scratch) {
          p.dtype == DType::f32 ? backward<float>(p, task, scratch)
                                : backward<bfloat16>(p, task, scratch);
        },
};

}  // namespace

constinit const Conv1dFunctions Conv1dFunctions::LAMINA_ISA = kFunctions;

}  // namespace lamina::cpu
