// Rows combined for AVX-512.
#include "backends/cpu/experts/rows_simd.cc"

namespace lamina::cpu {
const RowsKernels kRowsAvx512 = kKernels;
}
