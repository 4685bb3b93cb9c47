// gelu(x) = x * Phi(x), Phi the normal distribution by the error function.
// Hendrycks & Gimpel 2016, section 2.
#include "ops/op.h"

namespace lamina::ops {
namespace {

// d/dx = Phi(x) + x phi(x), in f32, rounded once.
std::vector<Tensor> vjp(const VjpCall& c) {
  const DType wide = sum_dtype(c.in(0).dtype());
  Tensor x = cast(c.in(0), wide);
  Tensor cdf = scale(shift(erf(scale(x, 0.70710678118654752)), 1), 0.5);
  Tensor pdf = scale(exp(scale(square(x), -0.5)), 0.39894228040143268);  // 1 / sqrt(2 pi)
  return {cast(cast(c.ct(), wide) * (cdf + x * pdf), c.in(0).dtype())};
}

}  // namespace

constinit const OpDef gelu_op = {
    .infer = infer_unary, .vjp = vjp, .elementwise = true, .facts = {.is_activation = true}};

}  // namespace lamina::ops
