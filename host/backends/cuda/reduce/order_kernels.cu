// Sums along a dim, in the order of the dim.
//
// Bound by memory. A long run of neighbours has a block, which reads it by tiles; other runs
// have a few threads each, which add up their segments, learn the sum of the segments before, and
// read the segments again to write the results. Sums of f32, bf16 and f16 are f32.
#include "backends/cuda/gpu/row_groups.h"
#include "backends/cuda/reduce/params.h"

namespace lamina::cuda {
namespace {

using gpu::Global;

constexpr int kThreads = 256;

template <typename T>
using SumType = std::conditional_t<std::is_integral_v<T>, std::int64_t, gpu::Wide<T>>;

template <typename T>
LAMINA_GPU_FUNCTION void store_sum(const Global<T>& y, std::int64_t i, SumType<T> sum) {
  if constexpr (sizeof(T) == 4 && sizeof(sum) == 8)
    y[i] = static_cast<T>(sum);
  else
    gpu::store(y, i, sum);
}

// Neighbouring runs side by side, each in segments.
template <typename T>
LAMINA_GPU_FUNCTION void in_segments(const CumsumParams& p) {
  using Sum = SumType<T>;
  LAMINA_GPU_SHARED(Sum, sums, kThreads);
  const Global<const T> x(p.x);
  const Global<T> y(p.y);
  const int runs = kThreads / p.segments;  // of the block
  const int segment = gpu::thread_index() / runs;
  const std::int64_t run =
      static_cast<std::int64_t>(gpu::block_index()) * runs + gpu::thread_index() % runs;
  const std::int64_t length = (p.length + p.segments - 1) / p.segments;
  const std::int64_t begin = segment * length;
  const std::int64_t end = run < p.num_runs ? gpu::min(begin + length, p.length) : std::int64_t{0};
  const std::int64_t base = run / p.inner * p.length * p.inner + run % p.inner;
  const auto at = [&](std::int64_t i) {
    return base + (p.reverse ? p.length - 1 - i : i) * p.inner;
  };
  Sum sum = 0;
  if (p.segments > 1) {
    for (std::int64_t i = begin; i < end; ++i) sum += gpu::load(x, at(i));
    sums[gpu::thread_index()] = sum;
    gpu::sync();
    sum = 0;
    for (int before = 0; before < segment; ++before)
      sum += sums[before * runs + gpu::thread_index() % runs];
  }
  for (std::int64_t i = begin; i < end; ++i) {
    const Sum before = sum;
    sum += gpu::load(x, at(i));
    store_sum(y, at(i), p.exclusive ? before : sum);
  }
}

// A block per run of neighbours; a thread has four elements of each tile.
template <typename T>
LAMINA_GPU_FUNCTION void by_tiles(const CumsumParams& p) {
  constexpr int kItems = 4, kWarps = kThreads / 32;
  using Sum = SumType<T>;
  LAMINA_GPU_SHARED(Sum, warps, kWarps);
  const std::int64_t base = static_cast<std::int64_t>(gpu::block_index()) * p.length;
  const Global<const T> x = Global<const T>(p.x) + base;
  const Global<T> y = Global<T>(p.y) + base;
  Sum done = 0;  // of the tiles before
  for (std::int64_t tile = 0; tile < p.length; tile += kThreads * kItems) {
    const std::int64_t first = tile + gpu::thread_index() * kItems;
    const auto at = [&](int k) { return p.reverse ? p.length - 1 - first - k : first + k; };
    Sum before[kItems], sum = 0;
    LAMINA_GPU_UNROLL
    for (int k = 0; k < kItems; ++k) {
      before[k] = sum;
      if (first + k < p.length) sum += gpu::load(x, at(k));
    }
    Sum through = sum;  // the sum of the warp up to this lane
    for (int distance = 1; distance < 32; distance *= 2) {
      const Sum other = gpu::shuffle(through, (gpu::lane() - distance) & 31);
      if (gpu::lane() >= distance) through = other + through;
    }
    if (gpu::lane() == 31) warps[gpu::warp_index()] = through;
    const Sum of_lanes = gpu::shuffle(through, (gpu::lane() - 1) & 31);
    gpu::sync();
    Sum start = done;
    for (int w = 0; w < kWarps; ++w) {
      if (w < gpu::warp_index()) start += warps[w];
      done += warps[w];
    }
    if (gpu::lane() > 0) start += of_lanes;
    LAMINA_GPU_UNROLL
    for (int k = 0; k < kItems; ++k)
      if (first + k < p.length) {
        const Sum through_k = k + 1 < kItems ? before[k + 1 < kItems ? k + 1 : k] : sum;
        store_sum(y, at(k), start + (p.exclusive ? before[k] : through_k));
      }
    gpu::sync();
  }
}

}  // namespace

#define LAMINA_CUMSUM_KERNELS(dtype, T)                                          \
  LAMINA_GPU_KERNEL_BOUNDS(cumsum_segments_##dtype, CumsumParams, kThreads, 1) { \
    in_segments<T>(p);                                                           \
  }                                                                              \
  LAMINA_GPU_KERNEL_BOUNDS(cumsum_tiles_##dtype, CumsumParams, kThreads, 1) { by_tiles<T>(p); }
LAMINA_CUMSUM_KERNELS(f32, float)
LAMINA_CUMSUM_KERNELS(bf16, gpu::bfloat16)
LAMINA_CUMSUM_KERNELS(f16, gpu::float16)
LAMINA_CUMSUM_KERNELS(f64, double)
LAMINA_CUMSUM_KERNELS(i32, std::int32_t)
LAMINA_CUMSUM_KERNELS(i64, std::int64_t)
#undef LAMINA_CUMSUM_KERNELS

}  // namespace lamina::cuda
