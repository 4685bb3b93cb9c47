// Conversions for any machine.
#include "backends/cpu/convert_kernel.h"

namespace lamina::cpu {
const ConvertKernels kConvertPortable = kKernels;
}
