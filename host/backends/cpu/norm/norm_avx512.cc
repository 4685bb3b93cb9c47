// Norms for AVX-512.
#include "backends/cpu/norm/norm_simd.cc"

namespace lamina::cpu {
const NormKernels kNormAvx512 = kKernels;
}
