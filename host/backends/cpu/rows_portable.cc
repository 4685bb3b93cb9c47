// Rows combined for any machine.
#include "backends/cpu/rows_kernel.h"

namespace lamina::cpu {
const RowsKernels kRowsPortable = kKernels;
}
