// log(x) = the natural logarithm.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Tensor> vjp(const VjpCall& c) { return {c.ct() / c.in(0)}; }

}  // namespace

constinit const OpDef log_op = {.infer = infer_unary, .vjp = vjp, .elementwise = true};

}  // namespace lamina::ops
