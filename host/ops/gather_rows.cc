// gather_rows: see ops.def.
#include "ops/op.h"

namespace lamina::ops {

constinit const OpDef gather_rows_op = {};

}  // namespace lamina::ops
