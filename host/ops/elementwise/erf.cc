// erf(x) = the error function.
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Tensor> vjp(const VjpCall& c) {
  return {c.ct() * scale(exp(-square(c.in(0))), 1.1283791670955126)};  // 2 / sqrt(pi)
}

}  // namespace

constinit const OpDef erf_op = {.infer = infer_unary, .vjp = vjp, .elementwise = true};

}  // namespace lamina::ops
