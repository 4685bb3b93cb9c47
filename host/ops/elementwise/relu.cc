// relu(x) = max(x, 0).
#include "ops/op.h"

namespace lamina::ops {
namespace {

std::vector<Tensor> vjp(const VjpCall& c) {
  return {select(less(zeros_like(c.in(0)), c.in(0)), c.ct(), zeros_like(c.ct()))};
}

}  // namespace

constinit const OpDef relu_op = {
    .infer = infer_unary, .vjp = vjp, .elementwise = true, .facts = {.is_activation = true}};

}  // namespace lamina::ops
