// select(condition, a, b): a where condition is true, else b; all three broadcast.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Type> infer(const Call& c) {
  c.require_dtype(0, DType::boolean);
  c.require(c.type(1).dtype == c.type(2).dtype, "a and b must have the same dtype, got {} and {}",
            to_string(c.type(1)), to_string(c.type(2)));
  Shape values = broadcast_shape(c, c.type(1).shape, c.type(2).shape);
  return {c.type(1).with(broadcast_shape(c, c.type(0).shape, values))};
}

std::vector<Tensor> vjp(const VjpCall& c) {
  Tensor zero = zeros_like(c.ct());
  return {{},
          sum_to(select(c.in(0), c.ct(), zero), c.type(1).shape),
          sum_to(select(c.in(0), zero, c.ct()), c.type(2).shape)};
}

}  // namespace

constinit const OpDef select_op = {.infer = infer, .vjp = vjp, .elementwise = true};

}  // namespace lamina::ops
