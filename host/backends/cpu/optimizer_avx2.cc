// Optimizer steps for AVX2.
#include "backends/cpu/optimizer_kernel.h"

namespace lamina::cpu {
const OptimizerKernels kOptimizerAvx2 = kKernels;
}
