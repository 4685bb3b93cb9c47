// remainder(a, b) = a - floor(a / b) b, with the sign of b; for integers a where b is 0. With
// broadcasting.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Tensor> lower(const LowerCall& c) {
  Tensor a = c.in(0), b = c.in(1), whole = a / b;
  return {a - (is_floating(a.dtype()) ? floor(whole) : whole) * b};
}

}  // namespace

constinit const OpDef remainder_op = {
    .infer = infer_arithmetic, .lower = lower, .elementwise = true, .always_lower = true};

}  // namespace lamina::ops
