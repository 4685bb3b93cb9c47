// log1p(x) = log(1 + x), accurate for small x.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Tensor> vjp(const VjpCall& c) { return {c.ct() / shift(c.in(0), 1)}; }

}  // namespace

constinit const OpDef log1p_op = {.infer = infer_unary, .vjp = vjp, .elementwise = true};

}  // namespace lamina::ops
