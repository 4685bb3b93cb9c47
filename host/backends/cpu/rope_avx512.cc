// Rope for AVX-512.
#include "backends/cpu/rope_kernel.h"

namespace lamina::cpu {
const RopeKernels kRopeAvx512 = kKernels;
}
