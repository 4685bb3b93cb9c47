// Softmax for any machine.
#include "backends/cpu/softmax/softmax_simd.cc"

namespace lamina::cpu {
const SoftmaxKernels kSoftmaxPortable = kKernels;
}
