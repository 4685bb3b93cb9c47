// softplus(x) = log(1 + exp(x)).
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Tensor> vjp(const VjpCall& c) { return {c.ct() * sigmoid(c.in(0))}; }

}  // namespace

constinit const OpDef softplus_op = {.infer = infer_unary, .vjp = vjp, .elementwise = true};

}  // namespace lamina::ops
