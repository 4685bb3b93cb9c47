// Random numbers for any machine.
#include "backends/cpu/random/random_simd.cc"

namespace lamina::cpu {
const RandomKernels kRandomPortable = kKernels;
}
