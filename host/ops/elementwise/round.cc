// round(x): the nearest integer, ties to even. Its gradient is zero.
#include "ops/op.h"

namespace lamina::ops {

constinit const OpDef round_op = {.infer = infer_unary, .elementwise = true, .zero_gradient = true};

}  // namespace lamina::ops
