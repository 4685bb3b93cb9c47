// The taps of a token of a causal convolution, for the kernels of this folder.
#pragma once

#include "backends/cuda/conv/params.h"
#include "backends/cuda/gpu/typed.h"

namespace lamina::cuda {
namespace {

// N neighbouring channels of a token of a row.
struct ConvPlace {
  std::int64_t b, t, c;
};

// Divides thread numbers into rows, tiles of `tile` tokens and groups of N channels, so that
// neighbouring threads have neighbouring channels.
template <int N>
LAMINA_GPU_FUNCTION ConvPlace conv_place(const Conv1dParams& p, std::int64_t i, int tile) {
  const std::int64_t groups = p.channels / N, tiles = (p.tokens + tile - 1) / tile;
  return {i / groups / tiles, i / groups % tiles * tile, i % groups * N};
}

template <int N, typename T>
LAMINA_GPU_FUNCTION void load_channels(gpu::Global<const T> x, std::int64_t i, float (&to)[N]) {
  const auto v = gpu::load_vector<N>(x, i);
  LAMINA_GPU_UNROLL
  for (int k = 0; k < N; ++k) to[k] = gpu::widen(v.values[k]);
}
template <int N, typename T>
LAMINA_GPU_FUNCTION void store_channels(gpu::Global<T> y, std::int64_t i, const float (&from)[N]) {
  gpu::Vector<T, N> v;
  LAMINA_GPU_UNROLL
  for (int k = 0; k < N; ++k) v.values[k] = gpu::narrow<T>(from[k]);
  gpu::store_vector(y, i, v);
}
template <int N>
LAMINA_GPU_FUNCTION void set_zeros(float (&to)[N]) {
  LAMINA_GPU_UNROLL
  for (int k = 0; k < N; ++k) to[k] = 0;
}

LAMINA_GPU_FUNCTION float silu(float x) { return x / (1 + gpu::exp(-x)); }
LAMINA_GPU_FUNCTION float silu_gradient(float x) {
  const float s = 1 / (1 + gpu::exp(-x));
  return s * (1 + x * (1 - s));
}

// Reads x, and before its first token the window.
template <typename T, int N>
struct ConvInput {
  const Conv1dParams& p;
  gpu::Global<const T> x, window;  // window: null if it counts as zeros
  gpu::Global<const std::int32_t> segments;
  gpu::NumberReader w, bias;

  LAMINA_GPU_FUNCTION explicit ConvInput(const Conv1dParams& params)
      : p(params), x(params.x), segments(params.segments), w(params.w), bias(params.bias) {}

  // True if the convolution joins tokens t and t - back.
  LAMINA_GPU_FUNCTION bool joined(std::int64_t b, std::int64_t t, std::int64_t back) const {
    if (!segments) return true;
    return segments[b * p.tokens + t] == segments[b * p.tokens + t - back];
  }
  // Reads the element `back` tokens before token t.
  LAMINA_GPU_FUNCTION void read(const ConvPlace& at, std::int64_t t, std::int64_t back,
                                float (&to)[N]) const {
    if (t >= back && joined(at.b, t, back))
      load_channels(x, (at.b * p.tokens + t - back) * p.channels + at.c, to);
    else if (t < back && window)
      load_channels(window, (at.b * p.reach + p.reach + t - back) * p.channels + at.c, to);
    else
      set_zeros(to);
  }
  // Loads tap j of channels c to c + N - 1.
  LAMINA_GPU_FUNCTION void load_tap(std::int64_t c, int j, float (&to)[N]) const {
    LAMINA_GPU_UNROLL
    for (int k = 0; k < N; ++k) to[k] = w[(c + k) * p.width + j];
  }
  LAMINA_GPU_FUNCTION void load_bias(std::int64_t c, float (&to)[N]) const {
    LAMINA_GPU_UNROLL
    for (int k = 0; k < N; ++k) to[k] = bias ? bias[c + k] : 0.0f;
  }
  // Adds the products of all taps of token t to `sum`.
  LAMINA_GPU_FUNCTION void add_taps(const ConvPlace& at, std::int64_t t, float (&sum)[N]) const {
    for (int j = 0; j < p.width; ++j) {
      float value[N], tap[N];
      read(at, t, (p.width - 1 - j) * p.dilation, value);
      load_tap(at.c, j, tap);
      LAMINA_GPU_UNROLL
      for (int k = 0; k < N; ++k) sum[k] = gpu::fma(value[k], tap[k], sum[k]);
    }
  }
};

}  // namespace
}  // namespace lamina::cuda
