// Reads memory as fast as it can be read: 16 bytes per thread and step, four steps at a time.
#include "backends/cuda/gpu/gpu.h"
#include "backends/cuda/limits/params.h"

namespace lamina::cuda {

LAMINA_GPU_KERNEL(limits_read, ReadParams) {
  const gpu::Global<const std::uint32_t> x(p.x);
  constexpr int kSteps = 4;
  std::uint32_t bits = 0;
  for (std::int64_t i = gpu::first_index(); i < p.count; i += kSteps * gpu::num_indices()) {
    LAMINA_GPU_UNROLL
    for (int s = 0; s < kSteps; ++s) {
      const std::int64_t at = i + s * gpu::num_indices();
      if (at >= p.count) break;
      const auto v = gpu::load_vector<4>(x, 4 * at);
      bits |= v.values[0] | v.values[1] | v.values[2] | v.values[3];
    }
  }
  if (gpu::all(bits != 0) && gpu::lane() == 0)
    gpu::atomic_add(gpu::Global<std::uint32_t>(p.found), 0, 1);
}

}  // namespace lamina::cuda
