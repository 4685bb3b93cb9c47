// sin(x) = the sine of x.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Tensor> vjp(const VjpCall& c) { return {c.ct() * cos(c.in(0))}; }

}  // namespace

constinit const OpDef sin_op = {.infer = infer_unary, .vjp = vjp, .elementwise = true};

}  // namespace lamina::ops
