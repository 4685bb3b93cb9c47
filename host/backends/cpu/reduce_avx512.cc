// Sums and maxima for AVX-512.
#include "backends/cpu/reduce_kernel.h"

namespace lamina::cpu {
const ReduceKernels kReduceAvx512 = kKernels;
}
