// top_k: see ops.def.
#include "ops/op.h"

namespace lamina::ops {

constinit const OpDef top_k_op = {};

}  // namespace lamina::ops
