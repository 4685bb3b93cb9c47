// Cross-entropy for AVX-512.
#include "backends/cpu/cross_entropy/cross_entropy_simd.cc"

namespace lamina::cpu {
const CrossEntropyKernels kCrossEntropyAvx512 = kKernels;
}
