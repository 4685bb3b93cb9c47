// Norms for any machine.
#include "backends/cpu/norm_kernel.h"

namespace lamina::cpu {
const NormKernels kNormPortable = kKernels;
}
