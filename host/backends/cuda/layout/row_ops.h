// The kernels of ops that move rows by indices, for the table of the family.
#pragma once

#include "backends/cuda/layout/cache_slots.h"
#include "graph/call.h"
#include "runtime/kernel_table.h"

namespace lamina::cuda {

KernelTable row_kernels();

// Returns the slots of `cache` for the node, a cache_write or rotate_write.
CacheSlots cache_slots(const NodeView& n, const Type& cache);

}  // namespace lamina::cuda
