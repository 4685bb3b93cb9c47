// Maps for AVX-512.
#include "backends/cpu/map_kernel.h"

namespace lamina::cpu {
const MapKernels kMapAvx512 = kKernels;
}
