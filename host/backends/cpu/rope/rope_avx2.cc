// Rope for AVX2.
#include "backends/cpu/rope/rope_simd.cc"

namespace lamina::cpu {
const RopeKernels kRopeAvx2 = kKernels;
}
