// Random numbers for AVX2.
#include "backends/cpu/random_kernel.h"

namespace lamina::cpu {
const RandomKernels kRandomAvx2 = kKernels;
}
