// Optimizer steps for any machine.
#include "backends/cpu/optimizer_kernel.h"

namespace lamina::cpu {
const OptimizerKernels kOptimizerPortable = kKernels;
}
