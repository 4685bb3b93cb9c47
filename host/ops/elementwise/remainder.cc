// remainder(a, b) = a - floor(a / b) b, with the sign of b; for integers a where b is 0. In f32
// (f64 for f64), rounded once. With broadcasting.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Tensor> lower(const LowerCall& c) {
  const DType dtype = c.type(0).dtype;
  if (!is_floating(dtype)) return {c.in(0) - c.in(0) / c.in(1) * c.in(1)};
  const DType wide = sum_dtype(dtype);
  Tensor a = cast(c.in(0), wide), b = cast(c.in(1), wide), zero = number_like(b, 0);
  Tensor whole = floor(a / b);
  // Not 0 times b, which may be infinite.
  Tensor y = select(equal(whole, zero), a, a - whole * b);
  // A quotient that was rounded up to an integer is one too large.
  Tensor has_other_sign = select(less(b, zero), less(zero, y), less(y, zero));
  y = select(has_other_sign, y + b, y);
  // A rounded product leaves y beyond b.
  return {cast(select(less(abs(b), abs(y)), b, y), dtype)};
}

}  // namespace

constinit const OpDef remainder_op = {
    .infer = infer_arithmetic, .lower = lower, .elementwise = true, .always_lower = true};

}  // namespace lamina::ops
