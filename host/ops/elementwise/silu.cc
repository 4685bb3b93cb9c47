// silu(x) = x * sigmoid(x). Elfwing et al. 2017, section 2.
#include "ops/op.h"

namespace lamina::ops {
namespace {

// d/dx = s + x s (1 - s), s = sigmoid(x), in f32, rounded once.
std::vector<Tensor> vjp(const VjpCall& c) {
  const DType wide = sum_dtype(c.in(0).dtype());
  Tensor x = cast(c.in(0), wide), s = sigmoid(x);
  return {cast(cast(c.ct(), wide) * s * shift(x * shift(-s, 1), 1), c.in(0).dtype())};
}

}  // namespace

constinit const OpDef silu_op = {
    .infer = infer_unary, .vjp = vjp, .elementwise = true, .facts = {.is_activation = true}};

}  // namespace lamina::ops
