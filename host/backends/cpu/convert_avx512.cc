// Conversions for AVX-512.
#include "backends/cpu/convert_kernel.h"

namespace lamina::cpu {
const ConvertKernels kConvertAvx512 = kKernels;
}
