// remainder(a, b) = a - floor(a / b) b, with the sign of b; for integers a where b is 0. Rounded
// once where |a / b| is below 2^57; larger quotients may have any result from 0 to b. In f64 the
// product is rounded, too. b is the result where it is infinite and a has the other sign. With
// broadcasting.
#include <cmath>
#include <initializer_list>
#include <limits>

#include "ops/op.h"

namespace lamina::ops {
namespace {

// Returns |a| modulo |b|, computed in f64. The 24 bits of an f32 times 29 bits of the quotient are
// exact there, so the quotient is taken off in two parts.
Tensor remainder_of_sizes(Tensor a, Tensor b, DType dtype) {
  a = abs(cast(a, DType::f64));
  b = abs(cast(b, DType::f64));
  Tensor rest = a, zero = number_like(a, 0);
  const auto take_off = [&](Tensor part) { rest = rest - floor(rest / part) * part; };
  if (dtype != DType::f64) take_off(scale(b, std::ldexp(1.0, 28)));
  take_off(b);
  // A rounded product leaves a rest outside of [0, b). NaN stays NaN.
  rest = select(less(rest, zero), rest + b, rest);
  rest = select(less(rest, zero), zero, select(less(rest, b), rest, rest - rest));
  return select(less(a, b), a, rest);  // also for an infinite b
}

std::vector<Tensor> lower(const LowerCall& c) {
  const DType dtype = c.type(0).dtype;
  if (!is_floating(dtype)) return {c.in(0) - c.in(0) / c.in(1) * c.in(1)};
  const DType wide = sum_dtype(dtype);
  // Numbers of the dtype, like a and b.
  Tensor size = cast(remainder_of_sizes(c.in(0), c.in(1), dtype), wide);
  Tensor a = cast(c.in(0), wide), b = cast(c.in(1), wide);
  Tensor zero = number_like(b, 0), none = number_like(size, 0);
  Tensor other_sign = select(less(b, zero), less(number_like(a, 0), a), less(a, number_like(a, 0)));
  Tensor y = select(other_sign, select(equal(size, none), size, abs(b) - size), size);
  return {cast(select(less(b, zero), neg(y), y), dtype)};
}

// Uses the whole quotient of the result: a / b may have been rounded up to the next one.
std::vector<Tensor> vjp(const VjpCall& c) {
  Tensor a = cast(c.in(0), DType::f64), b = cast(c.in(1), DType::f64),
         y = cast(c.out(0), DType::f64);
  Tensor is_finite = less(abs(y), number_like(y, std::numeric_limits<double>::infinity()));
  Tensor whole = select(is_finite, round((a - y) / b), floor(a / b));
  return {sum_to(c.ct(), c.type(0).shape),
          sum_to(neg(c.ct() * cast(whole, c.ct().dtype())), c.type(1).shape)};
}

}  // namespace

constinit const OpDef remainder_op = {
    .infer = infer_arithmetic, .lower = lower, .vjp = vjp, .elementwise = true};

}  // namespace lamina::ops
