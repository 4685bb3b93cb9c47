// The kernels of the CUDA backend: one table per family. An op that is in no table is lowered. The
// op "custom" has the kernels of all custom ops of plugins.
#pragma once

#include "runtime/kernel_table.h"

namespace lamina::cuda {

#define LAMINA_CUDA_FAMILY(name) KernelTable name##_kernels();
#include "backends/cuda/families.def"
#undef LAMINA_CUDA_FAMILY

}  // namespace lamina::cuda
