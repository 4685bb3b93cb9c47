// top_k_mask: see ops.def.
#include "ops/op.h"

namespace lamina::ops {

constinit const OpDef top_k_mask_op = {};

}  // namespace lamina::ops
