// Causal depthwise convolution for AVX2.
#include "backends/cpu/conv1d_kernel.h"

namespace lamina::cpu {
const Conv1dKernels kConv1dAvx2 = kKernels;
}
