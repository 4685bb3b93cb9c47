// Sums and maxima for any machine.
#include "backends/cpu/reduce_kernel.h"

namespace lamina::cpu {
const ReduceKernels kReducePortable = kKernels;
}
