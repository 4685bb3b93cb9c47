// Maps for AVX-512.
#include "backends/cpu/elementwise/map_simd.cc"

namespace lamina::cpu {
const MapKernels kMapAvx512 = kKernels;
}
