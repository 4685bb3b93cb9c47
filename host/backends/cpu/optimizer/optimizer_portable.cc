// Optimizer steps for any machine.
#include "backends/cpu/optimizer/optimizer_simd.cc"

namespace lamina::cpu {
const OptimizerKernels kOptimizerPortable = kKernels;
}
