// Softmax for AVX2.
#include "backends/cpu/softmax/softmax_simd.cc"

namespace lamina::cpu {
const SoftmaxKernels kSoftmaxAvx2 = kKernels;
}
