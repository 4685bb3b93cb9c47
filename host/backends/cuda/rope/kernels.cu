// Tables of angles, and rotations by them.
//
// rotate is bound by memory: a thread rotates the pairs of one or two vectors of 16 bytes; the
// table comes from L1 and L2, since all heads of a token share its row. The tables are small.
#include "backends/cuda/gpu/row_groups.h"
#include "backends/cuda/rope/params.h"

namespace lamina::cuda {
namespace {

using gpu::Global;

LAMINA_GPU_FUNCTION void fill_table(const RopeTableParams& p) {
  const Global<const std::int32_t> positions(p.positions);
  const Global<const float> of_rows(p.of_rows);
  const Global<float> cos(p.cos), sin(p.sin);
  const std::int64_t count = p.num_tokens * p.count;
  for (std::int64_t at = gpu::first_index(); at < count; at += gpu::num_indices()) {
    const std::int64_t token = at / p.count;
    const int i = static_cast<int>(at - token * p.count);
    const std::int64_t row = of_rows ? token / p.tokens_per_row : 0;
    const float frequency = of_rows ? of_rows[row * p.half + p.first + i] : p.frequencies[i];
    const auto position = static_cast<float>(positions[p.axes[i] * p.num_tokens + token]);
    const float angle = position * frequency;
    cos[token * p.half + p.first + i] = gpu::cos(angle) * p.factor;
    sin[token * p.half + p.first + i] = gpu::sin(angle) * p.factor;
  }
}

// A block per row.
LAMINA_GPU_FUNCTION void find_frequencies(const RopeRowsParams& p) {
  LAMINA_GPU_SHARED(std::int32_t, scratch, gpu::kWarpSize);
  const std::int64_t row = gpu::block_index();
  const Global<const std::int32_t> positions =
      Global<const std::int32_t>(p.positions) + row * p.tokens_per_row;
  const Global<float> out = Global<float>(p.of_rows) + row * p.half + p.first;
  std::int32_t largest = INT32_MIN;
  for (std::int64_t i = gpu::thread_index(); i < p.tokens_per_row; i += gpu::num_threads())
    largest = gpu::max(largest, std::int32_t{positions[i]});
  largest = gpu::block_max(largest, INT32_MIN, scratch);
  const std::int64_t length = std::int64_t{largest} + 1;
  // As dynamic_theta() and wave_numbers() of ops/rope_frequencies.cc.
  const double stretch = p.factor * static_cast<double>(length) / static_cast<double>(p.limit);
  const double theta = p.theta * pow(stretch - (p.factor - 1), p.exponent);
  for (int i = gpu::thread_index(); i < p.count; i += gpu::num_threads()) {
    float frequency = p.within[i];
    if (length > p.limit) {
      frequency = p.beyond[i];
      // Channels without a frequency do not rotate.
      const int channel = 2 * (p.first + i);
      if (p.is_dynamic && channel < p.frequency_dim) {
        const float share = static_cast<float>(channel) / static_cast<float>(p.frequency_dim);
        const double wave =
            pow(static_cast<double>(static_cast<float>(theta)), static_cast<double>(share));
        frequency = 1.0f / static_cast<float>(wave);
      }
    }
    out[i] = frequency;
  }
}

// Wide numbers of the pairs: a rotates to a cos - b sin, b to b cos + a sin.
template <typename W>
struct Pair {
  W a, b;
};
template <typename W>
LAMINA_GPU_FUNCTION Pair<W> rotated(W a, W b, W cos, W sin) {
  return {gpu::fma(a, cos, -(b * sin)), gpu::fma(b, cos, a * sin)};
}

// A thread has N channels of one half and the N that rotate with them, or N pairs of neighbours, or
// 2 N channels that pass. N divides half and width.
template <bool kInterleaved, typename T, int N>
LAMINA_GPU_FUNCTION void rotate(const RotateParams& p) {
  using W = gpu::Wide<T>;
  const Global<const T> x(p.x);
  const Global<T> y(p.y);
  const Global<const float> cosines(p.cos), sines(p.sin);
  const int rotating = p.half / N;
  const int passing = (p.width - 2 * p.half) / N;
  const int per_head = rotating + passing, per_token = p.heads * per_head;
  const std::int64_t count = p.num_tokens * per_token;
  for (std::int64_t at = gpu::first_index(); at < count; at += gpu::num_indices()) {
    const std::int64_t token = at / per_token;
    const int rest = static_cast<int>(at - token * per_token);
    const int head = rest / per_head, item = rest - head * per_head;
    const std::int64_t base = (token * p.heads + head) * p.width;
    if (item >= rotating) {
      const std::int64_t i = base + 2 * p.half + static_cast<std::int64_t>(item - rotating) * N;
      W pass[N];
      gpu::load_numbers(x, i, pass);
      gpu::store_numbers(y, i, pass);
      continue;
    }
    float c[N], s[N];
    gpu::load_numbers(cosines, token * p.half + item * N, c);
    gpu::load_numbers(sines, token * p.half + item * N, s);
    const std::int64_t first = base + static_cast<std::int64_t>(item) * N * (kInterleaved ? 2 : 1);
    const std::int64_t second = first + (kInterleaved ? N : p.half);
    W v[2][N];
    gpu::load_numbers(x, first, v[0]);
    gpu::load_numbers(x, second, v[1]);
    LAMINA_GPU_UNROLL
    for (int j = 0; j < N; ++j) {
      W& a = kInterleaved ? v[2 * j / N][2 * j % N] : v[0][j];
      W& b = kInterleaved ? v[(2 * j + 1) / N][(2 * j + 1) % N] : v[1][j];
      const Pair<W> turned = rotated<W>(a, b, static_cast<W>(c[j]), static_cast<W>(s[j] * p.sign));
      a = turned.a;
      b = turned.b;
    }
    gpu::store_numbers(y, first, v[0]);
    gpu::store_numbers(y, second, v[1]);
  }
}

}  // namespace

LAMINA_GPU_KERNEL(rope_table, RopeTableParams) { fill_table(p); }
LAMINA_GPU_KERNEL(rope_rows, RopeRowsParams) { find_frequencies(p); }

#define LAMINA_ROTATE_KERNELS(dtype, T)                                                         \
  LAMINA_GPU_KERNEL(rotate_halves_##dtype##_vectors, RotateParams) {                            \
    rotate<false, T, (16 / sizeof(T))>(p);                                                      \
  }                                                                                             \
  LAMINA_GPU_KERNEL(rotate_halves_##dtype##_elements, RotateParams) { rotate<false, T, 1>(p); } \
  LAMINA_GPU_KERNEL(rotate_pairs_##dtype##_vectors, RotateParams) {                             \
    rotate<true, T, (16 / sizeof(T))>(p);                                                       \
  }                                                                                             \
  LAMINA_GPU_KERNEL(rotate_pairs_##dtype##_elements, RotateParams) { rotate<true, T, 1>(p); }
LAMINA_ROTATE_KERNELS(f32, float)
LAMINA_ROTATE_KERNELS(bf16, gpu::bfloat16)
LAMINA_ROTATE_KERNELS(f16, gpu::float16)
LAMINA_ROTATE_KERNELS(f64, double)
#undef LAMINA_ROTATE_KERNELS

}  // namespace lamina::cuda
