// Reads memory as fast as it can be read: 16 bytes per thread and step, eight steps at a time.
#include "backends/cuda/gpu/gpu.h"
#include "backends/cuda/limits/params.h"

namespace lamina::cuda {

LAMINA_GPU_KERNEL(limits_read, ReadParams) {
  const gpu::Global<const std::uint32_t> x(p.x);
  constexpr int kSteps = 8;
  std::uint32_t bits = 0;
  const auto add = [&](const auto& v) {
    bits |= v.values[0] | v.values[1] | v.values[2] | v.values[3];
  };
  const std::int64_t step = gpu::num_indices();
  std::int64_t i = gpu::first_index();
  // All loads of a step are under way before the first one is used.
  for (; i + (kSteps - 1) * step < p.count; i += kSteps * step) {
    decltype(gpu::load_vector<4>(x, 0)) v[kSteps];
    LAMINA_GPU_UNROLL
    for (int s = 0; s < kSteps; ++s) v[s] = gpu::load_vector<4>(x, 4 * (i + s * step));
    LAMINA_GPU_UNROLL
    for (int s = 0; s < kSteps; ++s) add(v[s]);
  }
  for (; i < p.count; i += step) add(gpu::load_vector<4>(x, 4 * i));
  if (gpu::all(bits != 0) && gpu::lane() == 0)
    gpu::atomic_add(gpu::Global<std::uint32_t>(p.found), 0, 1);
}

}  // namespace lamina::cuda
