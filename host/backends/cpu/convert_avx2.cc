// Conversions for AVX2.
#include "backends/cpu/convert_kernel.h"

namespace lamina::cpu {
const ConvertKernels kConvertAvx2 = kKernels;
}
