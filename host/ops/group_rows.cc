// group_rows: see ops.def.
#include "ops/op.h"

namespace lamina::ops {

constinit const OpDef group_rows_op = {};

}  // namespace lamina::ops
