// Norms for AVX2.
#include "backends/cpu/norm_kernel.h"

namespace lamina::cpu {
const NormKernels kNormAvx2 = kKernels;
}
