// Softmax for AVX2.
#include "backends/cpu/softmax_kernel.h"

namespace lamina::cpu {
const SoftmaxKernels kSoftmaxAvx2 = kKernels;
}
