// Rope for AVX2.
#include "backends/cpu/rope_kernel.h"

namespace lamina::cpu {
const RopeKernels kRopeAvx2 = kKernels;
}
