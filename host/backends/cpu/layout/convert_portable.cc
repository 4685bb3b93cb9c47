// Conversions for any machine.
#include "backends/cpu/layout/convert_simd.cc"

namespace lamina::cpu {
const ConvertKernels kConvertPortable = kKernels;
}
