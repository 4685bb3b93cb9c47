// Causal depthwise convolution for AVX2.
#include "backends/cpu/conv/conv1d_simd.cc"

namespace lamina::cpu {
const Conv1dKernels kConv1dAvx2 = kKernels;
}
