// Conversions for AVX-512.
#include "backends/cpu/layout/convert_simd.cc"

namespace lamina::cpu {
const ConvertKernels kConvertAvx512 = kKernels;
}
