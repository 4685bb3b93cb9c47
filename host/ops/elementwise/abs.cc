// abs(x) = |x|.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Tensor> vjp(const VjpCall& c) {
  return {c.ct() * (shift(scale(cast(less(zeros_like(c.in(0)), c.in(0)), c.ct().dtype()), 2), -1))};
}

}  // namespace

constinit const OpDef abs_op = {.infer = infer_unary, .vjp = vjp, .elementwise = true};

}  // namespace lamina::ops
