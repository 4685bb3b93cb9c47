// Norms for AVX-512.
#include "backends/cpu/norm_kernel.h"

namespace lamina::cpu {
const NormKernels kNormAvx512 = kKernels;
}
