// Cross-entropy for AVX2.
#include "backends/cpu/cross_entropy_kernel.h"

namespace lamina::cpu {
const CrossEntropyKernels kCrossEntropyAvx2 = kKernels;
}
