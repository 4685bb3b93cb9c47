// Sums and maxima for any machine.
#include "backends/cpu/reduce/reduce_simd.cc"

namespace lamina::cpu {
const ReduceKernels kReducePortable = kKernels;
}
