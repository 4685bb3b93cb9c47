// Cross-entropy for any machine.
#include "backends/cpu/cross_entropy/cross_entropy_simd.cc"

namespace lamina::cpu {
const CrossEntropyKernels kCrossEntropyPortable = kKernels;
}
