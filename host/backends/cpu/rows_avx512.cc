// Rows combined for AVX-512.
#include "backends/cpu/rows_kernel.h"

namespace lamina::cpu {
const RowsKernels kRowsAvx512 = kKernels;
}
