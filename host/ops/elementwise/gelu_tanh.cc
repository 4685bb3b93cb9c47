// gelu_tanh(x) = x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
// Hendrycks & Gimpel 2016, section 2.
#include "ops/op.h"

namespace lamina::ops {
namespace {

// d/dx = (1 + t) / 2 + x / 2 (1 - t^2) sqrt(2 / pi) (1 + 3 * 0.044715 x^2), t the tanh above.
std::vector<Tensor> vjp(const VjpCall& c) {
  constexpr double kSlope = 0.79788456080286536;  // sqrt(2 / pi)
  Tensor x = c.in(0);
  Tensor x2 = square(x);
  Tensor t = tanh(scale(x * shift(scale(x2, 0.044715), 1), kSlope));
  Tensor inner = scale(shift(scale(x2, 3 * 0.044715), 1), kSlope);
  Tensor outer = x * shift(-square(t), 1) * inner;
  return {c.ct() * scale(shift(t, 1) + outer, 0.5)};
}

}  // namespace

constinit const OpDef gelu_tanh_op = {
    .infer = infer_unary, .vjp = vjp, .elementwise = true, .facts = {.is_activation = true}};

}  // namespace lamina::ops
