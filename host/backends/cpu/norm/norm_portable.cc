// Norms for any machine.
#include "backends/cpu/norm/norm_simd.cc"

namespace lamina::cpu {
const NormKernels kNormPortable = kKernels;
}
