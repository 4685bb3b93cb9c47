// pow(a, b) = a to the power of b, with broadcasting; NaN where a is negative and b is not an
// integer.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  c.require_floating(0);
  return infer_broadcast(c);
}

// The exponent of a base that is not positive gets no gradient, because log(a) is undefined. A base
// with the exponent 0 gets the gradient 0, because pow(a, 0) is 1 for every a.
std::vector<Tensor> vjp(const VjpCall& c) {
  Tensor a = c.in(0), b = c.in(1), zero = zeros_like(a), one = shift(zero, 1);
  Tensor positive = less(zero, a);
  Tensor da = c.ct() * b * pow(select(equal(b, zeros_like(b)), one, a), shift(b, -1));
  Tensor db = c.ct() * select(positive, c.out(0), zero) * log(select(positive, a, one));
  return {sum_to(da, a.shape()), sum_to(db, b.shape())};
}

}  // namespace

constinit const OpDef pow_op = {.infer = infer, .vjp = vjp, .elementwise = true};

}  // namespace lamina::ops
