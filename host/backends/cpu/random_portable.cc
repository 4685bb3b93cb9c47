// Random numbers for any machine.
#include "backends/cpu/random_kernel.h"

namespace lamina::cpu {
const RandomKernels kRandomPortable = kKernels;
}
