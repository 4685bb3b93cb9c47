// shift_right(a, b) = a >> b for integers, preserving the sign; b is taken modulo the number of
// bits of a. With broadcasting.
#include "ops/op.h"

namespace lamina::ops {

constinit const OpDef shift_right_op = {
    .infer = infer_integers, .elementwise = true, .zero_gradient = true};

}  // namespace lamina::ops
