// bit_xor(a, b) = a ^ b of the bits of integers. With broadcasting.
#include "ops/op.h"

namespace lamina::ops {

constinit const OpDef bit_xor_op = {
    .infer = infer_integers, .elementwise = true, .zero_gradient = true};

}  // namespace lamina::ops
