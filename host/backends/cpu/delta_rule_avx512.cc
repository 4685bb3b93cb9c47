// The gated delta rule for AVX-512.
#include "backends/cpu/delta_rule_kernel.h"

namespace lamina::cpu {
const DeltaRuleKernels kDeltaRuleAvx512 = kKernels;
}
