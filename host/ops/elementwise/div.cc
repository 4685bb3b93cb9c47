// div(a, b) = a / b, with broadcasting; integers round towards minus infinity.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Tensor> vjp(const VjpCall& c) {
  Tensor da = c.ct() / c.in(1);
  return {sum_to(da, c.type(0).shape), sum_to(-(da * c.out(0)), c.type(1).shape)};
}

}  // namespace

constinit const OpDef div_op = {.infer = infer_arithmetic, .vjp = vjp, .elementwise = true};

}  // namespace lamina::ops
