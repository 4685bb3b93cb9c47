// minimum(a, b): the smaller of the two, with broadcasting. If they are equal, the gradient flows
// to a.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Tensor> vjp(const VjpCall& c) {
  Tensor b_wins = less(c.in(1), c.in(0));
  Tensor zero = zeros_like(c.ct());
  return {sum_to(select(b_wins, zero, c.ct()), c.type(0).shape),
          sum_to(select(b_wins, c.ct(), zero), c.type(1).shape)};
}

}  // namespace

constinit const OpDef minimum_op = {.infer = infer_arithmetic, .vjp = vjp, .elementwise = true};

}  // namespace lamina::ops
