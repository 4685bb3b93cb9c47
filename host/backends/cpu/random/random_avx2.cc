// Random numbers for AVX2.
#include "backends/cpu/random/random_simd.cc"

namespace lamina::cpu {
const RandomKernels kRandomAvx2 = kKernels;
}
