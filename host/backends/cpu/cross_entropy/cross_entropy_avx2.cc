// Cross-entropy for AVX2.
#include "backends/cpu/cross_entropy/cross_entropy_simd.cc"

namespace lamina::cpu {
const CrossEntropyKernels kCrossEntropyAvx2 = kKernels;
}
