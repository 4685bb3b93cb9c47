// square(x) = x * x.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Tensor> vjp(const VjpCall& c) { return {scale(c.ct() * c.in(0), 2)}; }

}  // namespace

constinit const OpDef square_op = {.infer = infer_unary, .vjp = vjp, .elementwise = true};

}  // namespace lamina::ops
