// gated_delta_rule: see ops.def.
#include "ops/op.h"

namespace lamina::ops {

constinit const OpDef gated_delta_rule_op = {};

}  // namespace lamina::ops
