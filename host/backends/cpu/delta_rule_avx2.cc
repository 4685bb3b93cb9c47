// The gated delta rule for AVX2.
#include "backends/cpu/delta_rule_kernel.h"

namespace lamina::cpu {
const DeltaRuleKernels kDeltaRuleAvx2 = kKernels;
}
