// Rope for AVX-512.
#include "backends/cpu/rope/rope_simd.cc"

namespace lamina::cpu {
const RopeKernels kRopeAvx512 = kKernels;
}
