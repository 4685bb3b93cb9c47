// Random numbers for AVX-512.
#include "backends/cpu/random_kernel.h"

namespace lamina::cpu {
const RandomKernels kRandomAvx512 = kKernels;
}
