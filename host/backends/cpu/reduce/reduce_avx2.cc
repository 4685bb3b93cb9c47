// Sums and maxima for AVX2.
#include "backends/cpu/reduce/reduce_simd.cc"

namespace lamina::cpu {
const ReduceKernels kReduceAvx2 = kKernels;
}
