// grouped_linear: see ops.def.
#include "ops/op.h"

namespace lamina::ops {

constinit const OpDef grouped_linear_op = {};

}  // namespace lamina::ops
