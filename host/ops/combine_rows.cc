// combine_rows: see ops.def.
#include "ops/op.h"

namespace lamina::ops {

constinit const OpDef combine_rows_op = {};

}  // namespace lamina::ops
