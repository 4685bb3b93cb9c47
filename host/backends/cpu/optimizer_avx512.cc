// Optimizer steps for AVX-512.
#include "backends/cpu/optimizer_kernel.h"

namespace lamina::cpu {
const OptimizerKernels kOptimizerAvx512 = kKernels;
}
