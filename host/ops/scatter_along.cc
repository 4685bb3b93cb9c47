// scatter_along: see ops.def.
#include "ops/op.h"

namespace lamina::ops {

constinit const OpDef scatter_along_op = {};

}  // namespace lamina::ops
