// Causal depthwise convolution for any machine.
#include "backends/cpu/conv1d_kernel.h"

namespace lamina::cpu {
const Conv1dKernels kConv1dPortable = kKernels;
}
