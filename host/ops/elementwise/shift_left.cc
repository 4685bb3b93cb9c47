// shift_left(a, b) = a << b for integers; b is taken modulo the number of bits of a. With
// broadcasting.
#include "ops/op.h"

namespace lamina::ops {

constinit const OpDef shift_left_op = {
    .infer = infer_integers, .elementwise = true, .zero_gradient = true};

}  // namespace lamina::ops
