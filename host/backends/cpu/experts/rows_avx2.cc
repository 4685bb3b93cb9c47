// Rows combined for AVX2.
#include "backends/cpu/experts/rows_simd.cc"

namespace lamina::cpu {
const RowsKernels kRowsAvx2 = kKernels;
}
