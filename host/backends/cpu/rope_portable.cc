// Rope for any machine.
#include "backends/cpu/rope_kernel.h"

namespace lamina::cpu {
const RopeKernels kRopePortable = kKernels;
}
