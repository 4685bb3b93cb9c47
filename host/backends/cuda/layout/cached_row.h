// The row of a cache for a token. For kernels.
#pragma once

#include "backends/cuda/gpu/gpu.h"
#include "backends/cuda/layout/cache_slots.h"

namespace lamina::cuda {

// Returns the row of a cache [batch, capacity] for slot `slot` of the part, or -1 if it is outside.
LAMINA_GPU_FUNCTION std::int64_t cached_row(const CacheSlots& cache, std::int64_t batch,
                                            std::int64_t slot) {
  if (cache.ring) slot %= cache.slots;
  const bool inside = slot >= 0 && slot < cache.slots;
  return inside ? batch * cache.capacity + cache.first + slot : -1;
}

}  // namespace lamina::cuda
