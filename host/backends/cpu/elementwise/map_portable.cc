// Maps for any machine.
#include "backends/cpu/elementwise/map_simd.cc"

namespace lamina::cpu {
const MapKernels kMapPortable = kKernels;
}
