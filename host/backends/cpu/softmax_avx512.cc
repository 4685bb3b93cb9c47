// Softmax for AVX-512.
#include "backends/cpu/softmax_kernel.h"

namespace lamina::cpu {
const SoftmaxKernels kSoftmaxAvx512 = kKernels;
}
