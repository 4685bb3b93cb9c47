// tanh(x) = the hyperbolic tangent.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Tensor> vjp(const VjpCall& c) { return {c.ct() * (shift(-square(c.out(0)), 1))}; }

}  // namespace

constinit const OpDef tanh_op = {.infer = infer_unary, .vjp = vjp, .elementwise = true};

}  // namespace lamina::ops
