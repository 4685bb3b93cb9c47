// RMS and layer norms and their gradients, in f32.
//
// Bound by memory: each element is read once and written once. A row has a group of threads with at
// most two vectors of 16 bytes each up to 8192 elements of bf16, kept in registers between the
// passes over the row; what wider rows have beyond kHeld vectors per thread is read again, from L1
// or L2.
#include "backends/cuda/gpu/row_groups.h"
#include "backends/cuda/norm/params.h"

namespace lamina::cuda {
namespace {

using gpu::Global;
using gpu::RowGroup;

// Calls body(c, i) for the elements [i, i + N) that this thread keeps in registers as its vector c,
// then rest(i) for those that it does not keep.
template <int N, int kHeld, typename Body>
LAMINA_GPU_FUNCTION void for_held(const RowGroup& g, int width, Body body) {
  LAMINA_GPU_UNROLL
  for (int c = 0; c < kHeld; ++c) {
    const int i = (c * g.threads + g.lane) * N;
    if (i < width) body(c, i);
  }
}
template <int N, int kHeld, typename Body>
LAMINA_GPU_FUNCTION void for_rest(const RowGroup& g, int width, Body body) {
  for (int i = (kHeld * g.threads + g.lane) * N; i < width; i += g.threads * N) body(i);
}

// Loads offset + weight; 1 without a weight.
template <int N, typename W>
LAMINA_GPU_FUNCTION void load_factors(const Global<const W>& weight, float offset, int i,
                                      float (&factors)[N]) {
  if (weight) {
    gpu::load_numbers(weight, i, factors);
    for (int j = 0; j < N; ++j) factors[j] += offset;
  } else {
    for (int j = 0; j < N; ++j) factors[j] = 1.0f;
  }
}

LAMINA_GPU_FUNCTION float inverse_root(float x) { return 1.0f / gpu::sqrt(x); }

// One row of the forward pass.
template <typename T, int N>
struct Rows {
  Global<const T> x, residual;
  Global<T> sum;

  // Loads h; the first time it is rounded and stored if it is a sum.
  LAMINA_GPU_FUNCTION void first(std::int64_t i, float (&h)[N]) const {
    gpu::load_numbers(x, i, h);
    if (!residual) return;
    float r[N];
    gpu::load_numbers(residual, i, r);
    for (int j = 0; j < N; ++j) h[j] = gpu::widen(gpu::narrow<T>(h[j] + r[j]));
    gpu::store_numbers(sum, i, h);
  }
  LAMINA_GPU_FUNCTION void again(std::int64_t i, float (&h)[N]) const {
    gpu::load_numbers(residual ? Global<const T>(sum) : x, i, h);
  }
};

template <bool kCentred, typename T, typename W, int N>
LAMINA_GPU_FUNCTION void forward(const NormForward& p) {
  constexpr int kHeld = 4;
  LAMINA_GPU_SHARED(float, scratch, gpu::kGroupScratch<1>);
  const Rows<T, N> rows{Global<const T>(p.x), Global<const T>(p.residual), Global<T>(p.sum)};
  const Global<const W> weight(p.weight), bias(p.bias);
  const Global<T> y(p.y);
  const RowGroup g = gpu::row_group(p.threads_per_row);
  const float share = 1.0f / static_cast<float>(p.width);
  const std::int64_t step = static_cast<std::int64_t>(gpu::num_blocks()) * g.count;
  for (std::int64_t first = static_cast<std::int64_t>(gpu::block_index()) * g.count;
       first < p.num_rows; first += step) {
    const std::int64_t row = first + g.index, base = row * p.width;
    const int width =
        row < p.num_rows ? p.width : 0;  // a group without a row only takes part in sums
    float held[kHeld][N] = {};
    float total = 0.0f;  // of h, or of its squares
    const auto count = [&](const float(&h)[N]) {
      for (int j = 0; j < N; ++j) total += kCentred ? h[j] : h[j] * h[j];
    };
    for_held<N, kHeld>(g, width, [&](int c, int i) {
      rows.first(base + i, held[c]);
      count(held[c]);
    });
    for_rest<N, kHeld>(g, width, [&](int i) {
      float h[N];
      rows.first(base + i, h);
      count(h);
    });
    float mean = 0.0f, squares = gpu::group_sum(g, total, scratch);
    if constexpr (kCentred) {
      mean = squares * share;
      total = 0.0f;
      const auto deviate = [&](const float(&h)[N]) {
        for (int j = 0; j < N; ++j) total += (h[j] - mean) * (h[j] - mean);
      };
      for_held<N, kHeld>(g, width, [&](int c, int) { deviate(held[c]); });
      for_rest<N, kHeld>(g, width, [&](int i) {
        float h[N];
        rows.again(base + i, h);
        deviate(h);
      });
      squares = gpu::group_sum(g, total, scratch);
    }
    const float scale = inverse_root(squares * share + p.eps);
    const auto finish = [&](int i, float(&h)[N]) {
      float factors[N];
      load_factors(weight, p.offset, i, factors);
      for (int j = 0; j < N; ++j) h[j] = (h[j] - mean) * scale * factors[j];
      if (kCentred && bias) {
        float b[N];
        gpu::load_numbers(bias, i, b);
        for (int j = 0; j < N; ++j) h[j] += b[j];
      }
      gpu::store_numbers(y, base + i, h);
    };
    for_held<N, kHeld>(g, width, [&](int c, int i) { finish(i, held[c]); });
    for_rest<N, kHeld>(g, width, [&](int i) {
      float h[N];
      rows.again(base + i, h);
      finish(i, h);
    });
  }
}

// The sums over a block's rows for the gradients of weight and bias: of the held elements in
// registers, of the rest in the block's part of the workspace.
template <int kOutputs, int N, int kHeld>
struct Partials {
  float held[kOutputs][kHeld][N] = {};
  Global<float> rest;  // [kOutputs, width]
  bool is_first_row = true;

  LAMINA_GPU_FUNCTION void add_rest(int at, const float (&values)[N]) {
    float sums[N] = {};
    if (!is_first_row) gpu::load_numbers(Global<const float>(rest), at, sums);
    for (int j = 0; j < N; ++j) sums[j] += values[j];
    gpu::store_numbers(rest, at, sums);
  }

  // Writes the held sums, added over the groups of the block in order.
  LAMINA_GPU_FUNCTION void write(const RowGroup& g, int width) {
    if (g.count == 1) {
      for (int k = 0; k < kOutputs; ++k)
        for_held<N, kHeld>(g, width, [&](int c, int i) {
          gpu::store_numbers(rest, static_cast<std::int64_t>(k) * width + i, held[k][c]);
        });
      return;
    }
    const auto sums = gpu::dynamic_shared<float>();  // [groups, kOutputs, width]
    for (int k = 0; k < kOutputs; ++k)
      for_held<N, kHeld>(g, width, [&](int c, int i) {
        for (int j = 0; j < N; ++j) sums[(g.index * kOutputs + k) * width + i + j] = held[k][c][j];
      });
    gpu::sync();
    for (int i = gpu::thread_index(); i < kOutputs * width; i += gpu::num_threads()) {
      float sum = sums[i];
      for (int group = 1; group < g.count; ++group) sum += sums[group * kOutputs * width + i];
      gpu::store(rest, i, sum);
    }
  }
};

// With n = (x - mean) scale and g = dy (offset + weight):
//   dx = scale (g - mean(g) - n mean(g n)), without mean(g) for RMS norm.
template <bool kCentred, typename T, typename W, int N>
LAMINA_GPU_FUNCTION void backward(const NormBackward& p) {
  constexpr int kHeld = 2, kOutputs = kCentred ? 2 : 1;
  LAMINA_GPU_SHARED(float, scratch, gpu::kGroupScratch<2>);
  const Global<const T> x(p.x), dy(p.dy);
  const Global<const W> weight(p.weight);
  const Global<T> dx(p.dx);
  const RowGroup g = gpu::row_group(p.threads_per_row);
  const float share = 1.0f / static_cast<float>(p.width);
  Partials<kOutputs, N, kHeld> partials;
  partials.rest = Global<float>(p.partials);
  if (partials.rest)
    partials.rest =
        partials.rest + static_cast<std::int64_t>(gpu::block_index()) * kOutputs * p.width;
  const std::int64_t step = static_cast<std::int64_t>(gpu::num_blocks()) * g.count;
  for (std::int64_t first = static_cast<std::int64_t>(gpu::block_index()) * g.count;
       first < p.num_rows; first += step) {
    const std::int64_t row = first + g.index, base = row * p.width;
    const int width = row < p.num_rows ? p.width : 0;
    float h[kHeld][N] = {}, d[kHeld][N] = {};
    for_held<N, kHeld>(g, width, [&](int c, int i) {
      gpu::load_numbers(x, base + i, h[c]);
      gpu::load_numbers(dy, base + i, d[c]);
    });
    // Calls body(h, d, i) for the elements of the row.
    const auto for_row = [&](auto body) {
      for_held<N, kHeld>(g, width, [&](int c, int i) { body(h[c], d[c], i); });
      for_rest<N, kHeld>(g, width, [&](int i) {
        float rest_h[N], rest_d[N];
        gpu::load_numbers(x, base + i, rest_h);
        gpu::load_numbers(dy, base + i, rest_d);
        body(rest_h, rest_d, i);
      });
    };
    float mean = 0.0f, scale = 0.0f;
    float sums[2] = {0.0f, 0.0f};
    if constexpr (kCentred) {
      for_row([&](const float(&v)[N], const float(&)[N], int) {
        for (int j = 0; j < N; ++j) sums[0] += v[j];
      });
      mean = gpu::group_sum(g, sums[0], scratch) * share;
      float squares = 0.0f;
      for_row([&](const float(&v)[N], const float(&)[N], int) {
        for (int j = 0; j < N; ++j) squares += (v[j] - mean) * (v[j] - mean);
      });
      scale = inverse_root(gpu::group_sum(g, squares, scratch) * share + p.eps);
      sums[0] = 0.0f;
    }
    // Centred: the sums of g and of g n. RMS norm: of x^2 and of g x.
    for_row([&](const float(&v)[N], const float(&dv)[N], int i) {
      float factors[N];
      load_factors(weight, p.offset, i, factors);
      for (int j = 0; j < N; ++j) {
        const float gradient = dv[j] * factors[j];
        sums[0] += kCentred ? gradient : v[j] * v[j];
        sums[1] += gradient * (kCentred ? (v[j] - mean) * scale : v[j]);
      }
    });
    gpu::group_combine(g, sums, gpu::SumOf{}, scratch);
    if constexpr (!kCentred) {
      scale = inverse_root(sums[0] * share + p.eps);
      sums[1] *= scale;
    }
    const float shift = kCentred ? sums[0] * share : 0.0f, bend = sums[1] * share;
    const auto finish = [&](const float(&v)[N], const float(&dv)[N], int i, float(&normalised)[N]) {
      float factors[N], out[N];
      load_factors(weight, p.offset, i, factors);
      for (int j = 0; j < N; ++j) {
        normalised[j] = (v[j] - mean) * scale;
        out[j] = (dv[j] * factors[j] - shift - normalised[j] * bend) * scale;
        normalised[j] *= dv[j];
      }
      gpu::store_numbers(dx, base + i, out);
    };
    for_held<N, kHeld>(g, width, [&](int c, int i) {
      float products[N];
      finish(h[c], d[c], i, products);
      for (int j = 0; j < N; ++j) {
        partials.held[0][c][j] += products[j];
        if constexpr (kCentred) partials.held[1][c][j] += d[c][j];
      }
    });
    for_rest<N, kHeld>(g, width, [&](int i) {
      float rest_h[N], rest_d[N], products[N];
      gpu::load_numbers(x, base + i, rest_h);
      gpu::load_numbers(dy, base + i, rest_d);
      finish(rest_h, rest_d, i, products);
      if (!partials.rest) return;
      partials.add_rest(i, products);
      if constexpr (kCentred) partials.add_rest(p.width + i, rest_d);
    });
    partials.is_first_row = false;
  }
  if (partials.rest) partials.write(g, p.width);
}

// A block adds 32 neighbours over all parts, eight parts side by side.
LAMINA_GPU_FUNCTION void add_up(const NormGradients& p) {
  constexpr int kSideBySide = 8;
  LAMINA_GPU_SHARED(float, sums, kSideBySide * 32);
  const Global<const float> partials(p.partials);
  const int length = p.outputs * p.width, i = gpu::block_index() * 32 + gpu::lane();
  float sum = 0.0f;
  if (i < length)
    for (int part = gpu::warp_index(); part < p.parts; part += kSideBySide)
      sum += gpu::load(partials, static_cast<std::int64_t>(part) * length + i);
  sums[gpu::thread_index()] = sum;
  gpu::sync();
  if (gpu::warp_index() > 0 || i >= length) return;
  for (int side = 1; side < kSideBySide; ++side) sum += sums[side * 32 + gpu::lane()];
  const Global<float> out(p.out[i / p.width]);
  if (out) gpu::store(out, i % p.width, sum);
}

}  // namespace

#define LAMINA_NORM_KERNELS(name, T, W, N)                                                        \
  LAMINA_GPU_KERNEL_BOUNDS(rms_norm_##name, NormForward, 512, 1) { forward<false, T, W, N>(p); }  \
  LAMINA_GPU_KERNEL_BOUNDS(layer_norm_##name, NormForward, 512, 1) { forward<true, T, W, N>(p); } \
  LAMINA_GPU_KERNEL_BOUNDS(rms_norm_grad_##name, NormBackward, 512, 1) {                          \
    backward<false, T, W, N>(p);                                                                  \
  }                                                                                               \
  LAMINA_GPU_KERNEL_BOUNDS(layer_norm_grad_##name, NormBackward, 512, 1) {                        \
    backward<true, T, W, N>(p);                                                                   \
  }
// By the dtypes of rows and weights: whole vectors of 16 bytes, or element by element.
LAMINA_NORM_KERNELS(f32_f32_vectors, float, float, 4)
LAMINA_NORM_KERNELS(f32_f32_elements, float, float, 1)
LAMINA_NORM_KERNELS(f32_bf16_vectors, float, gpu::bfloat16, 4)
LAMINA_NORM_KERNELS(f32_bf16_elements, float, gpu::bfloat16, 1)
LAMINA_NORM_KERNELS(bf16_f32_vectors, gpu::bfloat16, float, 8)
LAMINA_NORM_KERNELS(bf16_f32_elements, gpu::bfloat16, float, 1)
LAMINA_NORM_KERNELS(bf16_bf16_vectors, gpu::bfloat16, gpu::bfloat16, 8)
LAMINA_NORM_KERNELS(bf16_bf16_elements, gpu::bfloat16, gpu::bfloat16, 1)
#undef LAMINA_NORM_KERNELS

LAMINA_GPU_KERNEL(norm_gradients, NormGradients) { add_up(p); }

}  // namespace lamina::cuda
