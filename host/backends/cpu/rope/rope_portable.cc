// Rope for any machine.
#include "backends/cpu/rope/rope_simd.cc"

namespace lamina::cpu {
const RopeKernels kRopePortable = kKernels;
}
