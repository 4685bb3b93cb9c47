// take_along and scatter_along: elements of rows by index.
#include "backends/cuda/gpu/divide.h"
#include "backends/cuda/gpu/gpu.h"
#include "backends/cuda/layout/params.h"

namespace lamina::cuda {
namespace {

// Bound by memory: the elements of a row that indices name are in few sectors, or scattered.
template <typename T>
LAMINA_GPU_FUNCTION void take_along(const AlongParams& p) {
  const gpu::Global<const T> x(p.x);
  const gpu::Global<const std::int32_t> ids(p.ids);
  const gpu::Global<T> y(p.y);
  const std::int64_t count = p.num_rows * p.to.by;
  for (std::int64_t i = gpu::first_index(); i < count; i += gpu::num_indices()) {
    const std::int64_t id = ids[i];
    T value{};
    if (id >= 0 && id < p.from) value = x[gpu::divide(i, p.to) * p.from + id];
    y[i] = value;
  }
}

// A warp for each row adds its elements in order, 32 at a time: the first lane of those with one
// index adds all of them, so that sums have a fixed order without atomics. Bound by the 64 shuffles
// for 32 elements; rows are short (experts of a token), or there are many (channels of a sequence).
template <typename T, typename Sum>
LAMINA_GPU_FUNCTION void scatter_along(const AlongParams& p) {
  const gpu::Global<const T> x(p.x);
  const gpu::Global<const std::int32_t> ids(p.ids);
  const std::int64_t warps = gpu::num_indices() / gpu::kWarpSize;
  const std::int64_t warp = gpu::first_index() / gpu::kWarpSize;
  const int lane = gpu::lane();
  for (std::int64_t row = warp; row < p.num_rows; row += warps) {
    const gpu::Global<T> y = gpu::Global<T>(p.y) + row * p.to.by;
    const bool in_y = p.sums.value == p.y.value;
    const gpu::Global<Sum> sums = gpu::Global<Sum>(p.sums) + (in_y ? row : warp) * p.to.by;
    for (std::int64_t n = lane; n < p.to.by; n += gpu::kWarpSize) sums[n] = 0;
    gpu::sync_warp();
    for (std::int64_t first = 0; first < p.from; first += gpu::kWarpSize) {
      const std::int64_t j = first + lane;
      std::int32_t id = -1;
      Sum value = 0;
      if (j < p.from) {
        id = ids[row * p.from + j];
        if (id >= p.to.by) id = -1;
        value = gpu::load(x, row * p.from + j);
      }
      Sum sum = id >= 0 ? sums[id] : Sum{0};
      bool is_first = id >= 0;
      for (int l = 0; l < gpu::kWarpSize; ++l) {
        const std::int32_t other = gpu::shuffle(id, l);
        const Sum added = gpu::shuffle(value, l);
        if (other != id) continue;
        is_first = is_first && l >= lane;
        sum += added;
      }
      if (is_first) sums[id] = sum;
      gpu::sync_warp();
    }
    if (in_y) continue;
    for (std::int64_t n = lane; n < p.to.by; n += gpu::kWarpSize) gpu::store(y, n, sums[n]);
    gpu::sync_warp();
  }
}

}  // namespace

LAMINA_GPU_KERNEL(take_along_1, AlongParams) { take_along<std::uint8_t>(p); }
LAMINA_GPU_KERNEL(take_along_2, AlongParams) { take_along<std::uint16_t>(p); }
LAMINA_GPU_KERNEL(take_along_4, AlongParams) { take_along<std::uint32_t>(p); }
LAMINA_GPU_KERNEL(take_along_8, AlongParams) { take_along<std::uint64_t>(p); }
LAMINA_GPU_KERNEL(scatter_along_f32, AlongParams) { scatter_along<float, float>(p); }
LAMINA_GPU_KERNEL(scatter_along_bf16, AlongParams) { scatter_along<gpu::bfloat16, float>(p); }
LAMINA_GPU_KERNEL(scatter_along_f16, AlongParams) { scatter_along<gpu::float16, float>(p); }
LAMINA_GPU_KERNEL(scatter_along_f64, AlongParams) { scatter_along<double, double>(p); }
LAMINA_GPU_KERNEL(scatter_along_i32, AlongParams) { scatter_along<std::int32_t, std::int32_t>(p); }
LAMINA_GPU_KERNEL(scatter_along_i64, AlongParams) { scatter_along<std::int64_t, std::int64_t>(p); }

}  // namespace lamina::cuda
