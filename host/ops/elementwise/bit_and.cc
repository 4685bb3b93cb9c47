// bit_and(a, b) = a & b for integers, with broadcasting.
#include "ops/op.h"

namespace lamina::ops {

constinit const OpDef bit_and_op = {
    .infer = infer_integers, .elementwise = true, .zero_gradient = true};

}  // namespace lamina::ops
