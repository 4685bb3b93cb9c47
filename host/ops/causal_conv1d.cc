// causal_conv1d: see ops.def.
#include "ops/op.h"

namespace lamina::ops {

constinit const OpDef causal_conv1d_op = {};

}  // namespace lamina::ops
