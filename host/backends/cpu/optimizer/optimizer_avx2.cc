// Optimizer steps for AVX2.
#include "backends/cpu/optimizer/optimizer_simd.cc"

namespace lamina::cpu {
const OptimizerKernels kOptimizerAvx2 = kKernels;
}
