// Maps for AVX2.
#include "backends/cpu/elementwise/map_simd.cc"

namespace lamina::cpu {
const MapKernels kMapAvx2 = kKernels;
}
