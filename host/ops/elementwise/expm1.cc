// expm1(x) = exp(x) - 1, accurate where exp(x) is close to 1.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Tensor> vjp(const VjpCall& c) { return {c.ct() * shift(c.out(0), 1)}; }

}  // namespace

constinit const OpDef expm1_op = {.infer = infer_unary, .vjp = vjp, .elementwise = true};

}  // namespace lamina::ops
