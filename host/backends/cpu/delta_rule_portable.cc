// The gated delta rule for any machine.
#include "backends/cpu/delta_rule_kernel.h"

namespace lamina::cpu {
const DeltaRuleKernels kDeltaRulePortable = kKernels;
}
