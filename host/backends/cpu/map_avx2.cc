// Maps for AVX2.
#include "backends/cpu/map_kernel.h"

namespace lamina::cpu {
const MapKernels kMapAvx2 = kKernels;
}
