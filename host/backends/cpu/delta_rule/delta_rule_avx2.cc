// The gated delta rule for AVX2.
#include "backends/cpu/delta_rule/delta_rule_simd.cc"

namespace lamina::cpu {
const DeltaRuleKernels kDeltaRuleAvx2 = kKernels;
}
