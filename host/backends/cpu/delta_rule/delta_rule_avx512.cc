// The gated delta rule for AVX-512.
#include "backends/cpu/delta_rule/delta_rule_simd.cc"

namespace lamina::cpu {
const DeltaRuleKernels kDeltaRuleAvx512 = kKernels;
}
