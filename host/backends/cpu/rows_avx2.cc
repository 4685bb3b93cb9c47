// Rows combined for AVX2.
#include "backends/cpu/rows_kernel.h"

namespace lamina::cpu {
const RowsKernels kRowsAvx2 = kKernels;
}
