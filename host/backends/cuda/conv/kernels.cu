// Causal depthwise convolution over time. Bound by memory: each thread computes kConvTokens tokens
// of up to 16 bytes of channels. x is read once per tap, but from the second time on out of the
// first cache, which has several times the speed that the memory needs. Up to four taps stay in
// registers.
//
// Backward, with few taps next to each other, a thread walks over its tokens with the last values
// of x and of the gradients of sums in registers, so that x and dy are read once. It writes one
// part of dw and dbias for kConvGradTokens tokens; a second kernel adds the parts in their order.
#include "backends/cuda/conv/params.h"
#include "backends/cuda/conv/taps.h"

namespace lamina::cuda {
namespace {

template <typename T, int N>
LAMINA_GPU_FUNCTION void write_token(const Conv1dForwardParams& p, const ConvPlace& at,
                                     std::int64_t t, float (&sum)[N]) {
  const gpu::Global<T> y(p.y);
  if (p.conv.silu) {
    LAMINA_GPU_UNROLL
    for (int k = 0; k < N; ++k) sum[k] = silu(sum[k]);
  }
  store_channels(y, (at.b * p.conv.tokens + t) * p.conv.channels + at.c, sum);
}

// Computes the tokens of a tile with all taps in registers, the missing ones as zeros.
template <typename T, int N>
LAMINA_GPU_FUNCTION void forward_few(const Conv1dForwardParams& p, const ConvInput<T, N>& in,
                                     const ConvPlace& at, std::int64_t end) {
  float taps[kConvTaps][N], bias[N];
  const int missing = kConvTaps - p.conv.width;
  LAMINA_GPU_UNROLL
  for (int j = 0; j < kConvTaps; ++j)
    if (j >= missing)
      in.load_tap(at.c, j - missing, taps[j]);
    else
      set_zeros(taps[j]);
  in.load_bias(at.c, bias);
  for (std::int64_t t = at.t; t < end; ++t) {
    float value[kConvTaps][N], sum[N];
    LAMINA_GPU_UNROLL
    for (int j = 0; j < kConvTaps; ++j)
      if (j >= missing)
        in.read(at, t, (kConvTaps - 1 - j) * p.conv.dilation, value[j]);
      else
        set_zeros(value[j]);
    LAMINA_GPU_UNROLL
    for (int k = 0; k < N; ++k) {
      sum[k] = 0;
      LAMINA_GPU_UNROLL
      for (int j = 0; j < kConvTaps; ++j) sum[k] = gpu::fma(value[j][k], taps[j][k], sum[k]);
      sum[k] += bias[k];
    }
    write_token<T>(p, at, t, sum);
  }
}

template <typename T, int N>
LAMINA_GPU_FUNCTION void forward_many(const Conv1dForwardParams& p, const ConvInput<T, N>& in,
                                      const ConvPlace& at, std::int64_t end) {
  float bias[N];
  in.load_bias(at.c, bias);
  for (std::int64_t t = at.t; t < end; ++t) {
    float sum[N];
    set_zeros(sum);
    in.add_taps(at, t, sum);
    LAMINA_GPU_UNROLL
    for (int k = 0; k < N; ++k) sum[k] += bias[k];
    write_token<T>(p, at, t, sum);
  }
}

// Replaces the window of N channels of a row. Rows are written in ascending order and read from
// later ones, so that both windows may be the same memory.
template <typename T, int N>
LAMINA_GPU_FUNCTION void replace_window(const Conv1dForwardParams& p, std::int64_t b,
                                        std::int64_t c) {
  const gpu::Global<const T> x(p.conv.x), before(p.window);
  const gpu::Global<T> after(p.new_window);
  const std::int64_t reach = p.conv.reach, channels = p.conv.channels;
  const std::int64_t count = gpu::Global<const std::int32_t>(p.count)[b];
  const bool started = gpu::Global<const std::int32_t>(p.start)[b] != 0;
  const std::int64_t valid = count < p.conv.tokens ? count : p.conv.tokens;
  for (std::int64_t r = 0; r < reach; ++r) {
    const std::int64_t t = count > 0 ? valid - reach + r : r - reach;  // the token of this row
    gpu::Vector<T, N> v;
    if (t >= 0)
      v = gpu::load_vector<N>(x, (b * p.conv.tokens + t) * channels + c);
    else if (started || count <= 0)
      v = gpu::load_vector<N>(before, (b * reach + reach + t) * channels + c);
    else
      for (int k = 0; k < N; ++k) v.values[k] = gpu::narrow<T>(0.0f);
    gpu::store_vector(after, (b * reach + r) * channels + c, v);
  }
}

template <typename T, int N>
LAMINA_GPU_FUNCTION void forward(const Conv1dForwardParams& p) {
  const ConvPlace at = conv_place<N>(p.conv, gpu::first_index(), kConvTokens);
  if (at.b >= p.conv.batch) return;
  ConvInput<T, N> in(p.conv);
  if (p.start.value != 0 && gpu::Global<const std::int32_t>(p.start)[at.b] != 0)
    in.window = gpu::Global<const T>(p.window);
  const std::int64_t end = gpu::min(p.conv.tokens, at.t + kConvTokens);
  if (p.conv.width <= kConvTaps)
    forward_few(p, in, at, end);
  else
    forward_many(p, in, at, end);
  // One tile: this thread is the only reader of its channels of the window.
  if (p.new_window.value != 0 && p.conv.tokens <= kConvTokens) replace_window<T, N>(p, at.b, at.c);
}

template <typename T, int N>
LAMINA_GPU_FUNCTION void replace_windows(const Conv1dForwardParams& p) {
  const std::int64_t i = gpu::first_index(), groups = p.conv.channels / N;
  if (i < p.conv.batch * groups) replace_window<T, N>(p, i / groups, i % groups * N);
}

// Computes the gradient of the sum of token t, before the activation, from the sum.
template <typename T, int N>
LAMINA_GPU_FUNCTION void through_activation(const Conv1dBackwardParams& p, const ConvPlace& at,
                                            std::int64_t t, const float (&sum)[N], float (&d)[N]) {
  const gpu::Global<const T> dy(p.dy);
  load_channels(dy, (at.b * p.conv.tokens + t) * p.conv.channels + at.c, d);
  if (!p.conv.silu) return;
  LAMINA_GPU_UNROLL
  for (int k = 0; k < N; ++k) d[k] *= silu_gradient(sum[k]);
}

LAMINA_GPU_FUNCTION std::int64_t tiles_per_row(const Conv1dParams& p) {
  return (p.tokens + kConvGradTokens - 1) / kConvGradTokens;
}

// Writes one part of the gradients of a tap, or of the bias: row p.conv.width.
template <int N>
LAMINA_GPU_FUNCTION void write_part(const Conv1dBackwardParams& p, std::int64_t part,
                                    std::int64_t c, int row, const float (&sum)[N]) {
  const gpu::Global<float> parts(p.parts);
  store_channels(parts, (part * (p.conv.width + 1) + row) * p.conv.channels + c, sum);
}

// The values that the taps of one token touch: index kConvTaps - 1 is token s, 0 the one three
// before it.
template <typename T, int N>
struct GradientWalk {
  const Conv1dBackwardParams& p;
  const ConvInput<T, N>& in;
  const ConvPlace& at;
  float taps[kConvTaps][N], bias[N];
  float x[kConvTaps][N], d[kConvTaps][N];
  float dtaps[kConvTaps][N], dbias[N];
  std::int32_t segment[kConvTaps];

  static constexpr int kLast = kConvTaps - 1;

  LAMINA_GPU_FUNCTION void load_token(std::int64_t s) {
    LAMINA_GPU_UNROLL
    for (int j = 0; j < kLast; ++j) {
      segment[j] = segment[j + 1];
      LAMINA_GPU_UNROLL
      for (int k = 0; k < N; ++k) x[j][k] = x[j + 1][k], d[j][k] = d[j + 1][k];
    }
    set_zeros(x[kLast]);
    set_zeros(d[kLast]);
    segment[kLast] = 0;
    if (s < 0 || s >= p.conv.tokens) return;
    if (in.segments) segment[kLast] = in.segments[at.b * p.conv.tokens + s];
    load_channels(in.x, (at.b * p.conv.tokens + s) * p.conv.channels + at.c, x[kLast]);
  }

  // Computes the gradient of the sum of token s, and its parts of the gradients of the taps if the
  // token belongs to this tile.
  LAMINA_GPU_FUNCTION void through_sum(std::int64_t s, bool mine) {
    float sum[N];
    LAMINA_GPU_UNROLL
    for (int k = 0; k < N; ++k) {
      sum[k] = 0;
      LAMINA_GPU_UNROLL
      for (int j = 0; j < kConvTaps; ++j)
        if (segment[j] == segment[kLast]) sum[k] = gpu::fma(x[j][k], taps[j][k], sum[k]);
      sum[k] += bias[k];
    }
    through_activation<T>(p, at, s, sum, d[kLast]);
    if (!mine) return;
    LAMINA_GPU_UNROLL
    for (int k = 0; k < N; ++k) {
      dbias[k] += d[kLast][k];
      LAMINA_GPU_UNROLL
      for (int j = 0; j < kConvTaps; ++j)
        if (segment[j] == segment[kLast]) dtaps[j][k] = gpu::fma(d[kLast][k], x[j][k], dtaps[j][k]);
    }
  }

  LAMINA_GPU_FUNCTION void write_dx(std::int64_t t) const {
    const gpu::Global<T> dx(p.dx);
    float sum[N];
    LAMINA_GPU_UNROLL
    for (int k = 0; k < N; ++k) {
      sum[k] = 0;
      LAMINA_GPU_UNROLL
      for (int j = 0; j < kConvTaps; ++j)
        if (segment[j] == segment[0]) sum[k] = gpu::fma(d[j][k], taps[kLast - j][k], sum[k]);
    }
    store_channels(dx, (at.b * p.conv.tokens + t) * p.conv.channels + at.c, sum);
  }

  LAMINA_GPU_FUNCTION void run() {
    const int missing = kConvTaps - p.conv.width;
    LAMINA_GPU_UNROLL
    for (int j = 0; j < kConvTaps; ++j) {
      set_zeros(x[j]);
      set_zeros(d[j]);
      set_zeros(dtaps[j]);
      segment[j] = 0;
      if (j >= missing)
        in.load_tap(at.c, j - missing, taps[j]);
      else
        set_zeros(taps[j]);
    }
    set_zeros(dbias);
    in.load_bias(at.c, bias);
    LAMINA_GPU_UNROLL
    for (int j = kLast; j > 0; --j) load_token(at.t - j);
    const std::int64_t end = gpu::min(p.conv.tokens, at.t + kConvGradTokens);
    for (std::int64_t s = at.t; s < end + kLast; ++s) {
      load_token(s);
      if (s < p.conv.tokens) through_sum(s, s < end);
      if (s - kLast >= at.t) write_dx(s - kLast);
    }
    const std::int64_t part = at.b * tiles_per_row(p.conv) + at.t / kConvGradTokens;
    LAMINA_GPU_UNROLL
    for (int j = 0; j < kConvTaps; ++j)
      if (j >= missing) write_part(p, part, at.c, j - missing, dtaps[j]);
    write_part(p, part, at.c, p.conv.width, dbias);
  }
};

// Up to four taps without dilation.
template <typename T, int N>
LAMINA_GPU_FUNCTION void backward_few(const Conv1dBackwardParams& p) {
  const ConvPlace at = conv_place<N>(p.conv, gpu::first_index(), kConvGradTokens);
  if (at.b >= p.conv.batch) return;
  const ConvInput<T, N> in(p.conv);
  GradientWalk<T, N> walk{p, in, at, {}, {}, {}, {}, {}, {}, {}};
  walk.run();
}

// Any taps, first step: the gradients of the sums of all tokens.
template <typename T>
LAMINA_GPU_FUNCTION void backward_sums(const Conv1dBackwardParams& p) {
  const ConvPlace at = conv_place<1>(p.conv, gpu::first_index(), 1);
  if (at.b >= p.conv.batch) return;
  const ConvInput<T, 1> in(p.conv);
  float sum[1], bias[1], d[1];
  set_zeros(sum);
  in.add_taps(at, at.t, sum);
  in.load_bias(at.c, bias);
  sum[0] += bias[0];
  through_activation<T>(p, at, at.t, sum, d);
  gpu::Global<float>(p.dsum)[(at.b * p.conv.tokens + at.t) * p.conv.channels + at.c] = d[0];
}

// Second step: dx.
template <typename T>
LAMINA_GPU_FUNCTION void backward_x(const Conv1dBackwardParams& p) {
  const ConvPlace at = conv_place<1>(p.conv, gpu::first_index(), 1);
  if (at.b >= p.conv.batch) return;
  const ConvInput<T, 1> in(p.conv);
  const gpu::Global<const float> dsum(p.dsum);
  float sum = 0;
  for (int j = 0; j < p.conv.width; ++j) {
    const std::int64_t back = (p.conv.width - 1 - j) * p.conv.dilation, t = at.t + back;
    if (t >= p.conv.tokens || !in.joined(at.b, t, back)) continue;
    const float d = dsum[(at.b * p.conv.tokens + t) * p.conv.channels + at.c];
    sum = gpu::fma(d, in.w[at.c * p.conv.width + j], sum);
  }
  gpu::store(gpu::Global<T>(p.dx), (at.b * p.conv.tokens + at.t) * p.conv.channels + at.c, sum);
}

// Third step: the parts of dw and dbias; the block's second index is the tap.
template <typename T>
LAMINA_GPU_FUNCTION void backward_taps(const Conv1dBackwardParams& p) {
  const std::int64_t part = gpu::first_index() / p.conv.channels, tiles = tiles_per_row(p.conv);
  if (part >= p.num_parts) return;
  const std::int64_t c = gpu::first_index() % p.conv.channels;
  const std::int64_t first = part * p.tiles_per_part;
  const std::int64_t last = gpu::min(first + p.tiles_per_part, p.conv.batch * tiles);
  const ConvInput<T, 1> in(p.conv);
  const gpu::Global<const float> dsum(p.dsum);
  for (int row = gpu::block_index_y(); row <= p.conv.width; row += gpu::num_blocks_y()) {
    float sum[1] = {0};
    for (std::int64_t tile = first; tile < last; ++tile) {
      const ConvPlace at{tile / tiles, tile % tiles * kConvGradTokens, c};
      const std::int64_t end = gpu::min(p.conv.tokens, at.t + kConvGradTokens);
      for (std::int64_t t = at.t; t < end; ++t) {
        float value[1] = {1};  // of the bias
        if (row < p.conv.width) in.read(at, t, (p.conv.width - 1 - row) * p.conv.dilation, value);
        const float d = dsum[(at.b * p.conv.tokens + t) * p.conv.channels + c];
        sum[0] = gpu::fma(d, value[0], sum[0]);
      }
    }
    write_part(p, part, c, row, sum);
  }
}

// Adds the parts of dw and dbias. A block adds row block_index_y() for 32 channels; its eight warps
// add every eighth part.
LAMINA_GPU_FUNCTION void add_parts(const Conv1dBackwardParams& p) {
  constexpr int kWarps = 8;
  LAMINA_GPU_SHARED(float, sums, kWarps* gpu::kWarpSize);
  const gpu::Global<const float> parts(p.parts);
  const std::int64_t c = std::int64_t{gpu::block_index()} * gpu::kWarpSize + gpu::lane();
  const int rows = p.conv.width + 1;
  for (int row = gpu::block_index_y(); row < rows; row += gpu::num_blocks_y()) {
    float sum = 0;
    if (c < p.conv.channels)
      for (std::int64_t i = gpu::warp_index(); i < p.num_parts; i += kWarps)
        sum += parts[(i * rows + row) * p.conv.channels + c];
    sums[gpu::thread_index()] = sum;
    gpu::sync();
    if (gpu::warp_index() == 0 && c < p.conv.channels) {
      for (int i = 1; i < kWarps; ++i) sum += sums[i * gpu::kWarpSize + gpu::lane()];
      if (row == p.conv.width && p.dbias.value != 0) gpu::Global<float>(p.dbias)[c] = sum;
      if (row < p.conv.width && p.dw.value != 0)
        gpu::Global<float>(p.dw)[c * p.conv.width + row] = sum;
    }
    gpu::sync();
  }
}

}  // namespace

LAMINA_GPU_KERNEL(conv1d_forward_f32, Conv1dForwardParams) { forward<float, 1>(p); }
LAMINA_GPU_KERNEL(conv1d_forward_wide_f32, Conv1dForwardParams) { forward<float, 4>(p); }
LAMINA_GPU_KERNEL(conv1d_forward_bf16, Conv1dForwardParams) { forward<gpu::bfloat16, 1>(p); }
LAMINA_GPU_KERNEL(conv1d_forward_wide_bf16, Conv1dForwardParams) { forward<gpu::bfloat16, 8>(p); }

LAMINA_GPU_KERNEL(conv1d_window_f32, Conv1dForwardParams) { replace_windows<float, 1>(p); }
LAMINA_GPU_KERNEL(conv1d_window_bf16, Conv1dForwardParams) { replace_windows<gpu::bfloat16, 1>(p); }

LAMINA_GPU_KERNEL(conv1d_backward_few_f32, Conv1dBackwardParams) { backward_few<float, 1>(p); }
LAMINA_GPU_KERNEL(conv1d_backward_few_wide_f32, Conv1dBackwardParams) { backward_few<float, 2>(p); }
LAMINA_GPU_KERNEL(conv1d_backward_few_bf16, Conv1dBackwardParams) {
  backward_few<gpu::bfloat16, 1>(p);
}
LAMINA_GPU_KERNEL(conv1d_backward_few_wide_bf16, Conv1dBackwardParams) {
  backward_few<gpu::bfloat16, 2>(p);
}

LAMINA_GPU_KERNEL(conv1d_backward_sums_f32, Conv1dBackwardParams) { backward_sums<float>(p); }
LAMINA_GPU_KERNEL(conv1d_backward_sums_bf16, Conv1dBackwardParams) {
  backward_sums<gpu::bfloat16>(p);
}
LAMINA_GPU_KERNEL(conv1d_backward_x_f32, Conv1dBackwardParams) { backward_x<float>(p); }
LAMINA_GPU_KERNEL(conv1d_backward_x_bf16, Conv1dBackwardParams) { backward_x<gpu::bfloat16>(p); }
LAMINA_GPU_KERNEL(conv1d_backward_taps_f32, Conv1dBackwardParams) { backward_taps<float>(p); }
LAMINA_GPU_KERNEL(conv1d_backward_taps_bf16, Conv1dBackwardParams) {
  backward_taps<gpu::bfloat16>(p);
}
LAMINA_GPU_KERNEL(conv1d_add_parts, Conv1dBackwardParams) { add_parts(p); }

}  // namespace lamina::cuda
