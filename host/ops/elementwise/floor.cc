// floor(x): the largest integer not above x. Its gradient is zero.
#include "ops/op.h"

namespace lamina::ops {

constinit const OpDef floor_op = {.infer = infer_unary, .elementwise = true, .zero_gradient = true};

}  // namespace lamina::ops
