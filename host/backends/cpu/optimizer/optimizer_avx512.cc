// Optimizer steps for AVX-512.
#include "backends/cpu/optimizer/optimizer_simd.cc"

namespace lamina::cpu {
const OptimizerKernels kOptimizerAvx512 = kKernels;
}
