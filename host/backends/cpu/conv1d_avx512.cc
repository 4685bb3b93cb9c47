// Causal depthwise convolution for AVX-512.
#include "backends/cpu/conv1d_kernel.h"

namespace lamina::cpu {
const Conv1dKernels kConv1dAvx512 = kKernels;
}
