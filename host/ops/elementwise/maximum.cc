// maximum(a, b): the larger of the two, with broadcasting. If they are equal, the gradient flows to
// a.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Tensor> vjp(const VjpCall& c) {
  Tensor b_wins = less(c.in(0), c.in(1));
  Tensor zero = zeros_like(c.ct());
  return {sum_to(select(b_wins, zero, c.ct()), c.type(0).shape),
          sum_to(select(b_wins, c.ct(), zero), c.type(1).shape)};
}

}  // namespace

constinit const OpDef maximum_op = {.infer = infer_arithmetic, .vjp = vjp, .elementwise = true};

}  // namespace lamina::ops
