// Causal depthwise convolution for any machine.
#include "backends/cpu/conv/conv1d_simd.cc"

namespace lamina::cpu {
const Conv1dKernels kConv1dPortable = kKernels;
}
