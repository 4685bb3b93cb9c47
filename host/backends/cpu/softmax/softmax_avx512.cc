// Softmax for AVX-512.
#include "backends/cpu/softmax/softmax_simd.cc"

namespace lamina::cpu {
const SoftmaxKernels kSoftmaxAvx512 = kKernels;
}
