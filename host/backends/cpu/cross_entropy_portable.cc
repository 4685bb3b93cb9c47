// Cross-entropy for any machine.
#include "backends/cpu/cross_entropy_kernel.h"

namespace lamina::cpu {
const CrossEntropyKernels kCrossEntropyPortable = kKernels;
}
