// sqrt(x) = the square root.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Tensor> vjp(const VjpCall& c) { return {scale(c.ct() / c.out(0), 0.5)}; }

}  // namespace

constinit const OpDef sqrt_op = {.infer = infer_unary, .vjp = vjp, .elementwise = true};

}  // namespace lamina::ops
