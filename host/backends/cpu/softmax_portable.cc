// Softmax for any machine.
#include "backends/cpu/softmax_kernel.h"

namespace lamina::cpu {
const SoftmaxKernels kSoftmaxPortable = kKernels;
}
