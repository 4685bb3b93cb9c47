// Tables of angles, and rotations by them, also on the way to a cache.
//
// rotate is bound by memory: a thread rotates the pairs of one or two vectors of 16 bytes; the
// table comes from L1 and L2, since all heads of a token share its row. The tables are small.
#include "backends/cuda/gpu/row_groups.h"
#include "backends/cuda/rope/params.h"
#include "backends/cuda/rope/rotated.h"

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

// Units of a head, one per thread: N channels of one half and the N that rotate with them, or N
// pairs of neighbours, or N channels that pass. N divides half and width.
struct HeadUnits {
  int width, half, rotating, count;
};
template <int N>
LAMINA_GPU_FUNCTION HeadUnits head_units(int width, int half) {
  return {width, half, half / N, half / N + (width - 2 * half) / N};
}

// Moves unit `unit` of the head at x[from] to the head at y[place()], rotated by cosines and sines;
// a place below 0 is nowhere. It is computed after the loads, so that they do not wait for it.
template <bool kInterleaved, int N, typename T, typename Place>
LAMINA_GPU_FUNCTION void move_unit(const HeadUnits& units, int unit, Global<const T> x,
                                   std::int64_t from, Global<T> y, Place place,
                                   Global<const float> cosines, Global<const float> sines,
                                   std::int64_t first_angle, float sign) {
  using W = gpu::Wide<T>;
  if (unit >= units.rotating) {
    const std::int64_t i = 2 * units.half + std::int64_t{unit - units.rotating} * N;
    const auto v = gpu::load_vector<N>(x, from + i);
    if (const std::int64_t to = place(); to >= 0) gpu::store_vector<N>(y, to + i, v);
    return;
  }
  float c[N], s[N];
  gpu::load_numbers(cosines, first_angle + unit * N, c);
  gpu::load_numbers(sines, first_angle + unit * N, s);
  const std::int64_t first = std::int64_t{unit} * N * (kInterleaved ? 2 : 1);
  const std::int64_t second = first + (kInterleaved ? N : units.half);
  W v[2][N];
  gpu::load_numbers(x, from + first, v[0]);
  gpu::load_numbers(x, from + second, v[1]);
  LAMINA_GPU_UNROLL
  for (int j = 0; j < N; ++j) {
    W& a = kInterleaved ? v[2 * j / N][2 * j % N] : v[0][j];
    W& b = kInterleaved ? v[(2 * j + 1) / N][(2 * j + 1) % N] : v[1][j];
    const Pair<W> turned = rotated<W>(a, b, static_cast<W>(c[j]), static_cast<W>(s[j] * sign));
    a = turned.a;
    b = turned.b;
  }
  const std::int64_t to = place();
  if (to < 0) return;
  gpu::store_numbers(y, to + first, v[0]);
  gpu::store_numbers(y, to + second, v[1]);
}

template <bool kInterleaved, typename T, int N>
LAMINA_GPU_FUNCTION void rotate(const RotateParams& p) {
  const Global<const T> x(p.x);
  const Global<T> y(p.y);
  const Global<const float> cosines(p.cos), sines(p.sin);
  const HeadUnits units = head_units<N>(p.width, p.half);
  const int per_token = p.heads * units.count;
  const std::int64_t count = p.num_tokens * per_token;
  for (std::int64_t at = gpu::first_index(); at < count; at += gpu::num_indices()) {
    const std::int64_t token = at / per_token;
    const int rest = static_cast<int>(at - token * per_token);
    const int head = rest / units.count;
    const std::int64_t base = (token * p.heads + head) * p.width;
    const auto place = [base] { return base; };
    move_unit<kInterleaved, N>(units, rest - head * units.count, x, base, y, place, cosines, sines,
                               token * p.half, p.sign);
  }
}

// The same for several rows of a token, which may be written to a cache. Bound by the time of a
// launch while few tokens are decoded.
template <bool kInterleaved, typename T, int N>
LAMINA_GPU_FUNCTION void rotate_write(const RotateWriteParams& p) {
  const Global<const float> cosines(p.cos), sines(p.sin);
  const std::int64_t count = p.num_tokens * p.units.by;
  for (std::int64_t at = gpu::first_index(); at < count; at += gpu::num_indices()) {
    const MovedUnit moved = moved_unit(p, at);
    const MovedRows& rows = p.rows[moved.part];
    const HeadUnits units = head_units<N>(rows.width, rows.half);
    const int head = static_cast<int>(moved.index) / units.count;
    const auto place = [&]() -> std::int64_t {
      const std::int64_t row = written_row(rows, moved);
      return row < 0 ? -1 : (row * rows.heads + head) * rows.width;
    };
    move_unit<kInterleaved, N>(units, static_cast<int>(moved.index) - head * units.count,
                               Global<const T>(rows.x),
                               (moved.token * rows.heads + head) * rows.width, Global<T>(rows.y),
                               place, cosines, sines, moved.token * rows.half, 1.0f);
  }
}

}  // namespace

LAMINA_GPU_KERNEL(rope_table, RopeTableParams) { fill_table(p); }
LAMINA_GPU_KERNEL(rope_rows, RopeRowsParams) { find_frequencies(p); }

#define LAMINA_ROTATE_KERNELS_OF(form, ...)                                  \
  LAMINA_GPU_KERNEL(rotate_##form, RotateParams) { rotate<__VA_ARGS__>(p); } \
  LAMINA_GPU_KERNEL(rotate_write_##form, RotateWriteParams) { rotate_write<__VA_ARGS__>(p); }
#define LAMINA_ROTATE_KERNELS(dtype, T)                                          \
  LAMINA_ROTATE_KERNELS_OF(halves_##dtype##_vectors, false, T, (16 / sizeof(T))) \
  LAMINA_ROTATE_KERNELS_OF(halves_##dtype##_elements, false, T, 1)               \
  LAMINA_ROTATE_KERNELS_OF(pairs_##dtype##_vectors, true, T, (16 / sizeof(T)))   \
  LAMINA_ROTATE_KERNELS_OF(pairs_##dtype##_elements, true, T, 1)
LAMINA_ROTATE_KERNELS(f32, float)
LAMINA_ROTATE_KERNELS(bf16, gpu::bfloat16)
LAMINA_ROTATE_KERNELS(f16, gpu::float16)
LAMINA_ROTATE_KERNELS(f64, double)
#undef LAMINA_ROTATE_KERNELS
#undef LAMINA_ROTATE_KERNELS_OF

}  // namespace lamina::cuda
