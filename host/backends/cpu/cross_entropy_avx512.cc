// Cross-entropy for AVX-512.
#include "backends/cpu/cross_entropy_kernel.h"

namespace lamina::cpu {
const CrossEntropyKernels kCrossEntropyAvx512 = kKernels;
}
