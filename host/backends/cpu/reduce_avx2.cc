// Sums and maxima for AVX2.
#include "backends/cpu/reduce_kernel.h"

namespace lamina::cpu {
const ReduceKernels kReduceAvx2 = kKernels;
}
