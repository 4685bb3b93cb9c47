// Rows combined for any machine.
#include "backends/cpu/experts/rows_simd.cc"

namespace lamina::cpu {
const RowsKernels kRowsPortable = kKernels;
}
