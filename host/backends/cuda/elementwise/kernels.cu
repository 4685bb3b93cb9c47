// Interpreters of maps. Bound by memory for chains of a few instructions, beyond that by decoding:
// a thread computes several consecutive elements, reads and writes them as vectors, and keeps the
// result of the last step in registers and other results in shared memory.
#include "backends/cuda/elementwise/interpreter.h"

namespace lamina::cuda {
namespace {

template <typename Word, int kElements>
LAMINA_GPU_FUNCTION void run_map(const MapParams& p) {
  MapInterpreter<Word, kElements> map(p, gpu::dynamic_shared<Word>());
  for (std::int64_t first = gpu::first_index() * kElements; first < p.num_elements;
       first += gpu::num_indices() * kElements)
    map.run(first);
}

}  // namespace

LAMINA_GPU_KERNEL_BOUNDS(map_32, MapParams, 128, 4) { run_map<std::uint32_t, kMapElements32>(p); }
LAMINA_GPU_KERNEL_BOUNDS(map_64, MapParams, 128, 4) { run_map<std::uint64_t, kMapElements64>(p); }

}  // namespace lamina::cuda
