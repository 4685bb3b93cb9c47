// Random numbers for AVX-512.
#include "backends/cpu/random/random_simd.cc"

namespace lamina::cpu {
const RandomKernels kRandomAvx512 = kKernels;
}
