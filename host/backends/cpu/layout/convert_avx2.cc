// Conversions for AVX2.
#include "backends/cpu/layout/convert_simd.cc"

namespace lamina::cpu {
const ConvertKernels kConvertAvx2 = kKernels;
}
