// Sums and maxima for AVX-512.
#include "backends/cpu/reduce/reduce_simd.cc"

namespace lamina::cpu {
const ReduceKernels kReduceAvx512 = kKernels;
}
