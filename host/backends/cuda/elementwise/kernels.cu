// Interpreters of maps. Bound by memory for chains of a few instructions, beyond that by decoding:
// a thread computes several consecutive elements, reads and writes them as vectors, and keeps the
// result of the last step in registers and other results in shared memory.
#include "backends/cuda/elementwise/interpreter.h"
#include "backends/cuda/gpu/chunks.h"

namespace lamina::cuda {
namespace {

template <typename Word, int kElements>
LAMINA_GPU_FUNCTION void run_map(const MapParams& p) {
  const WholeMap whole(p);
  MapInterpreter<Word, kElements, WholeMap> map(whole, gpu::dynamic_shared<Word>());
  for (std::int64_t first = gpu::first_index() * kElements; first < p.num_elements;
       first += gpu::num_indices() * kElements)
    map.run(first);
}

// A thread keeps its numbers in its own slots, so tensors need no barrier between them.
template <typename Word, int kElements>
LAMINA_GPU_FUNCTION void run_map_group(const MapGroupParams& p) {
  const std::int64_t chunk = std::int64_t{gpu::num_threads()} * kElements;
  gpu::for_chunks_of_block(p, [&](int tensor, std::int64_t begin, std::int64_t past) {
    const MapOfGroup of_tensor(p, tensor);
    MapInterpreter<Word, kElements, MapOfGroup> map(of_tensor, gpu::dynamic_shared<Word>());
    const std::int64_t end = gpu::min(past * chunk, of_tensor.num_elements());
    for (std::int64_t first = begin * chunk + gpu::thread_index() * kElements; first < end;
         first += chunk)
      map.run(first);
  });
}

}  // namespace

LAMINA_GPU_KERNEL_BOUNDS(map_32, MapParams, 128, 4) { run_map<std::uint32_t, kMapElements32>(p); }
LAMINA_GPU_KERNEL_BOUNDS(map_64, MapParams, 128, 4) { run_map<std::uint64_t, kMapElements64>(p); }
LAMINA_GPU_KERNEL_BOUNDS(map_group_32, MapGroupParams, 128, 4) {
  run_map_group<std::uint32_t, kMapElements32>(p);
}
LAMINA_GPU_KERNEL_BOUNDS(map_group_64, MapGroupParams, 128, 4) {
  run_map_group<std::uint64_t, kMapElements64>(p);
}

}  // namespace lamina::cuda
