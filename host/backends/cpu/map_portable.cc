// Maps for any machine.
#include "backends/cpu/map_kernel.h"

namespace lamina::cpu {
const MapKernels kMapPortable = kKernels;
}
