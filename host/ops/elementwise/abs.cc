// abs(x) = |x|. Its gradient at 0 is 0.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Tensor> vjp(const VjpCall& c) {
  Tensor x = c.in(0), zero = zeros_like(x);
  return {select(less(zero, x), c.ct(), select(less(x, zero), -c.ct(), zeros_like(c.ct())))};
}

}  // namespace

constinit const OpDef abs_op = {.infer = infer_unary, .vjp = vjp, .elementwise = true};

}  // namespace lamina::ops
