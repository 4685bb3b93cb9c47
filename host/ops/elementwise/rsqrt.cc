// rsqrt(x) = 1 / sqrt(x).
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Tensor> vjp(const VjpCall& c) { return {scale(c.ct() * c.out(0) / c.in(0), -0.5)}; }

}  // namespace

constinit const OpDef rsqrt_op = {.infer = infer_unary, .vjp = vjp, .elementwise = true};

}  // namespace lamina::ops
