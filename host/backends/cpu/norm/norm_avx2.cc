// Norms for AVX2.
#include "backends/cpu/norm/norm_simd.cc"

namespace lamina::cpu {
const NormKernels kNormAvx2 = kKernels;
}
