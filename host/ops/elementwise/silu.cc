// silu(x) = x * sigmoid(x). Elfwing et al. 2017, section 2.
#include "ops/op.h"

namespace lamina::ops {
namespace {

// d/dx = s + x s (1 - s), s = sigmoid(x).
std::vector<Tensor> vjp(const VjpCall& c) {
  Tensor s = sigmoid(c.in(0));
  return {c.ct() * s * shift(c.in(0) * shift(-s, 1), 1)};
}

}  // namespace

constinit const OpDef silu_op = {
    .infer = infer_unary, .vjp = vjp, .elementwise = true, .facts = {.is_activation = true}};

}  // namespace lamina::ops
