// cos(x) = the cosine of x.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Tensor> vjp(const VjpCall& c) { return {-(c.ct() * sin(c.in(0)))}; }

}  // namespace

constinit const OpDef cos_op = {.infer = infer_unary, .vjp = vjp, .elementwise = true};

}  // namespace lamina::ops
