// The gated delta rule for any machine.
#include "backends/cpu/delta_rule/delta_rule_simd.cc"

namespace lamina::cpu {
const DeltaRuleKernels kDeltaRulePortable = kKernels;
}
